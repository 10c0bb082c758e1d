// What a compiler's own <stdarg.h> gives; libclang's wheel has none.
#ifndef OPTIML_STDARG_H
#define OPTIML_STDARG_H
typedef __builtin_va_list __gnuc_va_list;
typedef __builtin_va_list va_list;
#define va_start(a, p) __builtin_va_start(a, p)
#define va_end(a) __builtin_va_end(a)
#define va_arg(a, T) __builtin_va_arg(a, T)
#define va_copy(a, b) __builtin_va_copy(a, b)
#endif
