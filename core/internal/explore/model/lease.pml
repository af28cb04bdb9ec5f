/*
 * The lease protocol for one idempotency key: PODS requests, each with a token of
 * its own, one store and a network that fails. The first RECONCILERS of them are no
 * requests, but claims of a reconciler. Spin searches every interleaving.
 * README.md maps the lines to the code and lists the switches (-D) and properties.
 *
 * A process that Spin does not schedule is frozen, and a process that Spin never
 * schedules again has crashed. Time is unbounded: every timer counts down to zero.
 */

#ifndef PODS
#define PODS 3
#endif
#ifndef TTL
#define TTL 1 /* ticks that a lease runs */
#endif
#ifndef TRIES
#define TRIES 2 /* tries of a request to claim the key */
#endif
#ifndef RECONCILERS
#define RECONCILERS 0
#endif
#define RECONCILES(h) (h < RECONCILERS)
#ifndef LATE
#define LATE 2 /* calls that reach the store after their caller gave up */
#endif

/* Switches with a value are rules that a mutant breaks. */
#ifdef EXTEND_IGNORES_ATTEMPT
#define EXTEND_SAME(n) true
#else
#define EXTEND_SAME(n) (attempt == n)
#endif
#ifdef COMPLETE_IGNORES_ATTEMPT
#define COMPLETE_SAME(n) true
#else
#define COMPLETE_SAME(n) (attempt == n)
#endif
#ifdef RELEASE_IGNORES_ATTEMPT
#define RELEASE_SAME(n) true
#else
#define RELEASE_SAME(n) (attempt == n)
#endif
#ifdef COMPLETE_IGNORES_TOKEN
#define COMPLETE_MINE(h, n) true
#else
#define COMPLETE_MINE(h, n) (owner == h && COMPLETE_SAME(n))
#endif
#ifdef EXTEND_IGNORES_TOKEN
#define EXTEND_MINE(h, n) true
#else
#define EXTEND_MINE(h, n) (owner == h && EXTEND_SAME(n))
#endif
#ifdef RELEASE_IGNORES_TOKEN
#define RELEASE_MINE(h, n) RELEASE_SAME(n)
#else
#define RELEASE_MINE(h, n) (owner == h && RELEASE_SAME(n))
#endif
#ifdef TOMBSTONE
#define OWN_RELEASED(h) false /* a settled token never comes back */
#define CLAIMABLE(h) (owner != h)
#else
#define OWN_RELEASED(h) (state == RELEASED)
#define CLAIMABLE(h) true
#endif
#ifdef TAKEOVER_EARLY
#define ABANDONED true
#else
#define ABANDONED (left == 0)
#endif
#ifdef REFUSE
#define TAKES_OVER(h) RECONCILES(h)
#else
#define TAKES_OVER(h) true
#endif
#ifdef ATTEMPT_NOT_RAISED
#define RAISED(n) (n)
#else
#define RAISED(n) (n + 1)
#endif
#ifdef SHOW_UNCONFIRMED
#define MAY_SHOW(h) true
#elif defined(CONFIRM_ALWAYS)
#define MAY_SHOW(h) false
#else
#define MAY_SHOW(h) (held[h] > 0)
#endif
#ifdef REPLAY_UNCONFIRMED
#define MAY_REPLAY(h) true
#else
#define MAY_REPLAY(h) MAY_SHOW(h)
#endif
#ifdef RENEW_UNBOUNDED
#define CONTEXT(h) alive[h]
#else
#define CONTEXT(h) (held[h] > 0)
#endif
#define FREE 0
#define RUNNING 1
#define RELEASED 2
#define FINISHED 3

/* Results of calls. */
#define OK 0
#define LOST 1
#define LEASE 2
#define RECORD 3
#define FINAL 4
#define ERROR 5

/* Kinds of late calls. */
#define ACQUIRE 0
#define EXTEND 1
#define HANDBACK 2
#define COMPLETE 3
#define RELEASE 4

/* The record. A finished record has its owner's response: every run has a different one. */
unsigned state : 2 = FREE;
unsigned owner : 2;
unsigned attempt : 4;
unsigned left : 2; /* of the lease, by the store's clock */
bit took;

/* The holders, by their own clocks and memories. */
byte held[PODS];  /* of the lease, counted from the call */
byte asked[PODS]; /* held, if the pending call succeeds */
byte number[PODS];
bit taken[PODS];
bit begun[PODS];
#ifdef RENEW_UNBOUNDED
bit alive[PODS];
#endif

/* Messages in the network, in any order. */
bit net[5 * PODS];
unsigned late : 2 = LATE;

/* State of the properties only. */
unsigned latest : 4;        /* attempt of the last claim */
unsigned effects : 2;
unsigned effectsOf : 10;    /* set of attempts with an effect */
bit takenOver, careless;
bit reconciled;             /* a reconciler has settled the key as happened */
bit released[PODS];
unsigned final : 3;         /* 1 + whose response was shown as confirmed */
#ifdef STRICT_RESPONSES
unsigned shown : 3;         /* 1 + whose response was shown at all */
#endif

/* ---- the store: one atomic step each ---- */

inline grant(h, n, over) {
	assert(n > latest && n < 16); /* P5: attempt numbers only grow, and fit */
	attempt = n; latest = attempt;
	state = RUNNING; owner = h; took = over; left = TTL;
	r = LEASE; a = attempt; k = took
}

inline Acquire(h) {
	d_step {
		if
		:: state == FREE -> grant(h, 1, 0)
		:: state == RELEASED && CLAIMABLE(h) -> grant(h, attempt + 1, 0)
		:: state == RELEASED && !CLAIMABLE(h) -> r = RECORD
		:: state == RUNNING && owner == h ->
			left = TTL; r = LEASE; a = attempt;
#ifdef TOOKOVER_FORGOTTEN
			k = 0
#else
			k = took
#endif
		:: state == RUNNING && owner != h && ABANDONED && TAKES_OVER(h) ->
			takenOver = 1;
#ifdef ATTEMPT_NOT_RAISED
			latest = 0;
#endif
			grant(h, RAISED(attempt), 1)
		:: state == RUNNING && owner != h && !(ABANDONED && TAKES_OVER(h)) -> r = RECORD
#ifdef SETTLED_RUNS_AGAIN
		:: state == FINISHED && RECONCILES(owner) -> grant(h, latest + 1, 1)
		:: state == FINISHED && !RECONCILES(owner) -> r = FINAL
#else
		:: state == FINISHED -> r = FINAL
#endif
		fi
	}
}

/* A lease may change the record: it is the holder's own, or there is no record. */
#define HELD(h, mine) (state == FREE || (state == RUNNING || OWN_RELEASED(h)) && mine)

inline stale(n) {
	assert(state == FREE || n == latest) /* P6: a stale settlement changes nothing */
}

inline Extend(h, ttl) {
	d_step {
		if
		:: HELD(h, EXTEND_MINE(h, number[h])) ->
			stale(number[h]);
			latest = number[h];
			state = RUNNING; owner = h; attempt = number[h]; took = taken[h]; left = ttl; r = OK
		:: else -> r = LOST
		fi
	}
}

inline Complete(h) {
	d_step {
		if
		:: state == FINISHED && owner == h -> r = OK
#ifdef COMPLETE_OVER_OTHER
		:: state == FINISHED && owner != h -> owner = h; r = OK
#endif
		:: HELD(h, COMPLETE_MINE(h, number[h])) ->
			stale(number[h]);
			reconciled = reconciled || RECONCILES(h);
			state = FINISHED; owner = h; attempt = 0; took = 0; left = 0; r = OK
		:: else -> r = LOST
		fi
	}
}

inline Release(h) {
	d_step {
		if
		:: state == FREE -> r = OK
		:: state == RUNNING && RELEASE_MINE(h, number[h]) ->
			released[h] = 1; left = 0; took = 0; r = OK;
#if defined(TOMBSTONE)
			state = RELEASED
#elif defined(RELEASE_FORGETS_ATTEMPT)
			state = FREE; attempt = 0; owner = 0; latest = 0
#else
			if
			:: number[h] == 1 -> state = FREE; attempt = 0; owner = 0; latest = 0
			:: else -> state = RELEASED
			fi
#endif
		:: state == RELEASED && owner == h -> r = OK
		:: else -> r = LOST
		fi
	}
}

/* ---- a call: the store's step, and the reply to the caller ---- */

/* The call is applied after its caller gave up. */
inline delayed(h, kind) {
	atomic { late > 0 && !net[5 * h + kind] -> net[5 * h + kind] = 1; late-- }
}

/* The call is lost, or delayed. */
inline fails(h, kind) {
	if
	:: r = ERROR
	:: delayed(h, kind); r = ERROR
	fi
}

/* The reply comes, or is lost. */
inline reply() {
	if
	:: true
	:: r = ERROR
	fi
}

/* ---- a response leaves ---- */

inline shows(whose) {
	d_step {
		assert(final == 0 || final == whose + 1); /* P1: never two under one key */
#ifdef STRICT_RESPONSES
		assert(shown == 0 || shown == whose + 1); /* P1s */
		shown = whose + 1;
#endif
	}
}

inline confirmed(whose) {
	d_step { shows(whose); final = whose + 1 }
}

/* ---- one request, or one claim of a reconciler ---- */

proctype holder(byte h) {
	byte r, a;
	bit k, did, published;
	byte tries;

	if
	:: h == 0 || h == RECONCILERS || begun[h - 1] /* the order of names */
	fi;
	if
	:: !RECONCILES(h)
	:: RECONCILES(h) ->
endSearch:
		state == RUNNING && ABANDONED /* its search finds the key */
	fi;
claim:
	atomic { begun[h] = 1; asked[h] = TTL };
	atomic {
		if
		:: Acquire(h); reply()
		:: fails(h, ACQUIRE)
		fi
	};
#ifdef LEASE_FROM_REPLY
	if
	:: r == LEASE -> asked[h] = TTL
	:: else
	fi;
#endif
	if
	:: atomic { r == LEASE && asked[h] > 0 -> goto handle }
	:: atomic { r == LEASE && asked[h] == 0 || r == ERROR -> r = 0; a = 0; k = 0; asked[h] = 0 };
		if
		:: tries < TRIES - 1 -> tries++; goto claim /* the same token finds its own claim */
		:: goto giveBack
		fi
	:: atomic { r == FINAL -> confirmed(owner); goto gone }
	:: r == RECORD -> goto gone /* 409: the retry is another request */
	fi;

giveBack:
	number[h] = 1;
	if
	:: delayed(h, RELEASE)
	:: true
	fi;
	if
	:: Release(h)
	:: true
	fi;
	goto gone;

handle:
	atomic {
		held[h] = asked[h]; asked[h] = 0; number[h] = a; taken[h] = k; tries = 0; r = 0; a = 0; k = 0;
#ifdef RENEW_UNBOUNDED
		alive[h] = 1;
#endif
		assert(effects == 0 || taken[h] || careless || held[h] == 0) /* P7: a later run knows of an abandoned run */
	};
	do
	:: asked[h] = TTL;
		atomic {
			if
			:: Extend(h, TTL); reply()
			:: fails(h, EXTEND)
			fi
		};
		d_step {
			if
			:: r == OK && held[h] > 0 -> held[h] = asked[h]
			:: r == LOST -> held[h] = 0
			:: else
			fi;
#ifdef RENEW_UNBOUNDED
			alive[h] = alive[h] && held[h] > 0;
#endif
			asked[h] = 0; r = 0
		}
	:: d_step {
		!did && !RECONCILES(h) -> did = 1;
		if
		:: CONTEXT(h) ->
			assert(state == RUNNING && owner == h && left > 0); /* P3: alone */
			assert(!reconciled) /* P9: what a reconciler has settled never runs again */
		:: else -> careless = 1 /* a handler that does not check its context */
		fi;
		assert(effects == 0 || takenOver); /* P4: one effect, unless a run was abandoned */
		assert(!(effectsOf & (1 << number[h]))); /* P5: an attempt fences the others */
		effects = effects + (effects < 2);
		effectsOf = effectsOf | (1 << number[h])
	}
	:: did -> goto complete
	:: !did && !taken[h] && !RECONCILES(h) -> goto complete
	:: !did && !taken[h] -> goto release
	:: RECONCILES(h) && taken[h] && effects > 0 -> /* the FindFunc reports the effect */
#ifdef RECONCILER_RELEASES
		goto release
#else
		goto complete
#endif
	:: !did && taken[h] && effects == 0 -> goto release /* the RecoverFunc or the FindFunc reports no effect */
	:: !did && taken[h] -> goto handBack
	od;

complete:
	atomic {
		if
		:: Complete(h); reply()
		:: fails(h, COMPLETE)
		fi
	};
	if
	:: atomic { r == OK && !RECONCILES(h) -> confirmed(h); goto gone }
	:: r == LOST || r == OK && RECONCILES(h) -> goto gone /* 409 */
#ifdef FROZEN_BEFORE_WRITE
	:: r == ERROR && MAY_SHOW(h) && !RECONCILES(h) -> shows(h); published = 1
#else
	:: atomic { r == ERROR && MAY_SHOW(h) && !RECONCILES(h) -> shows(h); published = 1; r = 0 }
#endif
	:: atomic { r == ERROR && (!MAY_SHOW(h) || RECONCILES(h)) -> r = 0 } /* 503 not_confirmed */
	:: atomic { r == ERROR -> r = 0; goto complete }
	fi;
#ifdef RELEASE_AFTER_EFFECT
	goto release;
#endif
	do
	:: atomic { Complete(h); reply() };
		if
		:: r == OK || r == LOST -> break
		:: atomic { r == ERROR -> r = 0 }
		fi
	:: delayed(h, COMPLETE)
	:: atomic { Extend(h, TTL); r = 0 } /* held stays */
	:: delayed(h, EXTEND)
	:: atomic { published && MAY_REPLAY(h) -> shows(h) } /* to a duplicate in this process */
	:: break /* the budget ends */
	od;
	goto gone;

release:
	do
	:: atomic { Release(h); reply() };
		if
		:: r == OK || r == LOST -> break
		:: atomic { r == ERROR -> r = 0 }
		fi
	:: delayed(h, RELEASE)
#ifdef EXTEND_WHILE_RELEASING
	:: Extend(h, TTL); assert(r != OK || !released[h]) /* P8 */
#endif
	:: break /* the budget ends */
	od;
#ifdef RENEW_AFTER_SETTLE
	Extend(h, TTL); assert(r != OK || !released[h]); /* P8 */
#endif
	goto gone;

handBack:
	if
	:: Extend(h, 0)
	:: fails(h, HANDBACK)
	fi;
gone:
	atomic {
		if
		:: late == LATE -> number[h] = 0; taken[h] = 0
		:: else
		fi;
		r = 0; a = 0; k = 0; did = 0; published = 0; tries = 0; asked[h] = 0; held[h] = 0
	}
}

/* ---- late calls arrive, or never do ---- */

#define ARRIVES(h, kind) net[5 * h + kind] -> net[5 * h + kind] = 0
#define ARRIVE(h) \
	:: atomic { ARRIVES(h, ACQUIRE); Acquire(h); r = 0; a = 0; k = 0 } \
	:: atomic { ARRIVES(h, EXTEND); Extend(h, TTL); NOT_RESURRECTED(h); r = 0 } \
	:: atomic { ARRIVES(h, HANDBACK); Extend(h, 0); r = 0 } \
	:: atomic { ARRIVES(h, COMPLETE); Complete(h); r = 0 } \
	:: atomic { ARRIVES(h, RELEASE); Release(h); r = 0 }
#ifdef STRICT_RELEASE
#define NOT_RESURRECTED(h) assert(r != OK || !released[h]) /* P8s */
#else
#define NOT_RESURRECTED(h) skip
#endif

proctype network() {
	byte r, a;
	bit k;
end:
	do
	ARRIVE(0)
	ARRIVE(1)
#if PODS > 2
	ARRIVE(2)
#endif
	od
}

/* ---- time passes for all processes, at any step ---- */

#ifdef CLOCK_STOPS
#define PASS(timer) if :: timer > 0 -> timer-- :: true fi
#else
#define PASS(timer) timer = timer - (timer > 0)
#endif

proctype clock() {
end:
	do
	:: atomic {
		left = left - (left > 0);
		PASS(held[0]); PASS(asked[0]);
		PASS(held[1]); PASS(asked[1]);
#if PODS > 2
		PASS(held[2]); PASS(asked[2])
#endif
	}
	od
}

init {
	atomic {
		run holder(0);
		run holder(1);
#if PODS > 2
		run holder(2);
#endif
		run network();
		run clock()
	}
}
