// The clock of programs that are not built by go, loaded by LD_PRELOAD: the seconds of ONCEKEY_CLOCK_SHIFT
// are added to the time of day, and taken off where a program waits until a time of day.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t shift(void) {
	const char *text = getenv("ONCEKEY_CLOCK_SHIFT");
	return text ? atoll(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now) {
	int result = syscall(SYS_clock_gettime, id, now);
	if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		now->tv_sec += shift();
	return result;
}

int gettimeofday(struct timeval *now, void *zone) {
	struct timespec t;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &t);
	now->tv_sec = t.tv_sec;
	now->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *now) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (now)
		*now = t.tv_sec;
	return t.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
	static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	struct timespec real = *until, now;
	if (!next)
		next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
	if (real.tv_sec > now.tv_sec / 2) // else the condition waits by the monotonic clock
		real.tv_sec -= shift();
	return next(cond, mutex, &real);
}
