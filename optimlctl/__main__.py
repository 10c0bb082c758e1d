"""`python -m optimlctl`."""

from optimlctl.main import main

main()
