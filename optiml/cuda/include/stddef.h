// What a compiler's own <stddef.h> gives; libclang's wheel has none.
#ifndef OPTIML_STDDEF_H
#define OPTIML_STDDEF_H
typedef decltype(sizeof(0)) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
typedef struct { long double a; long long b; } max_align_t;
#ifdef __cplusplus
namespace std { typedef decltype(nullptr) nullptr_t; }
#endif
#undef NULL
#define NULL __null
#define offsetof(T, M) __builtin_offsetof(T, M)
typedef __WINT_TYPE__ wint_t;
#endif
