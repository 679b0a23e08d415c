/* Whether a sanitizer looks on: then all is ten times slower, and memory is not the program's own. Tests
 * of many combinations then try each thing once, and not with each other: the release build does. */
#ifndef ZN_TESTS_SANITIZED_H
#define ZN_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

#endif
