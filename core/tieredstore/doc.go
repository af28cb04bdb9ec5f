// Package tieredstore puts a fast store in front of a durable one. The hot tier,
// normally redisstore, serves replays. The durable tier, normally pgstore, decides
// and keeps the records.
//
//	hot := redisstore.New(rdb)
//	durable := pgstore.New(pool)
//	engine, err := core.New(tieredstore.New(hot, durable), core.ScopeBy(userID))
//
// A replay is one round trip to the hot tier and no call to the database. A
// first-time request is claimed and completed in both tiers: two round trips to each.
// While the hot tier is unreachable, all requests are served by the durable tier,
// slower. While the durable tier is unreachable, the hot tier serves replays, and
// first-time requests follow the policy's OnStoreError. The hot tier may lose, forget
// or invent claims without causing a second run. So the hot tier may evict
// records, and redisstore's warning about maxmemory-policy does not apply here.
//
// # Algorithm
//
// Only the durable tier grants leases. A lease of this store is a lease of the
// durable tier, with its token, its attempt number and its clock. The hot tier is a
// cache of finished records. A claim in the hot tier grants no lease and refuses
// none. It is the right to fill the cache, given to one caller at a time, and it ends
// with its time to live.
//
//	Acquire   1. Acquire in the hot tier, with a claim of the caller's token that is
//	             kept no longer than its lease. For a finished record: replay it, done.
//	          2. Otherwise, or after an error: acquire in the durable tier, and return
//	             the result.
//	          3. If that result is a finished record, and step 1 got the claim: fill
//	             the hot tier. If another attempt is running, or the record is a
//	             tombstone: release the claim of step 1.
//	Complete  the durable tier; after its success, the hot tier, or where it is repeated
//	          the release of the claim of step 1.
//	Release   the durable tier; after its success, the hot tier.
//	Extend    the durable tier; after its success, the hot tier.
//	Commit    of a transaction, as Complete.
//	Forget    closes the key in the hot tier, with a claim of its own that no caller
//	          can fill; then forgets the key in the durable tier.
//
// A failure of the hot tier is logged, see [Logger], and never returned to the
// caller, except by Forget. A call to the hot tier may take [HotTimeout]. In Acquire
// it may take at most half of the time left. After five failures in a row the store
// calls the hot tier only once a second, until a call succeeds.
//
// The response that a key is in progress costs a round trip to each tier, and a second
// one to redisstore. A response from the hot tier alone would save a SELECT. But it
// could say "in progress" for a key whose completion or release the hot tier has lost.
//
// # Correctness
//
// Claim 1: the hot tier causes no second run. Only step 2 grants leases. Step 2
// follows the durable tier's own contract, and does not use the result of step 1.
//
// Claim 2: a finished record in the hot tier is, or was, a record of the durable
// tier. There are two writers, Complete and step 3. Both write a result after the
// durable tier has stored the result; a caller that repeats a Complete repeats it
// with the same result, as the engine does. A finished record never changes; it ends
// when its Retain has passed or an operator forgets it. So the hot tier can only be
// late to drop a record, and both writers make the hot tier drop it first:
//
//   - Complete gives the hot tier the result's Retain, less the time since its call to
//     the durable tier, and less a [HotTimeout]. A repeated Complete gives the hot tier
//     nothing, because the durable tier may have kept the result for a while: see
//     storage.Result.Repeated.
//   - Step 3 fills the hot tier for [RefillFor], for at most a hundredth of the claim's
//     Retain, and for at most the time until the durable record's Expires, less a
//     HotTimeout. After that, Acquire reads the durable tier again. The time until
//     Expires is measured by the clock of this process. A clock that is behind delays
//     the drop by its error, up to RefillFor; with a clock that is ahead, records near
//     their end are not refilled.
//
// Neither writes later than five seconds after its call to the durable tier. A write
// that arrives after its call was given up delays the drop too. A late drop replays a
// response shortly after its end, and never causes a run.
//
// Claim 3: the hot tier hides no tombstone and loses no steps. Both are in the durable
// tier alone: claims and results go to the hot tier without Remember and Steps. Once
// the durable tier has a tombstone, the hot tier's record has ended (claim 2), and
// step 3 fills nothing.
//
// A replay from the hot tier has the origin of the run, and the attempt number and times
// of the durable record: a refill carries them within the trace of its hot record's
// Origin, because its own attempt number is that of the right to fill. After a
// Complete the times are the hot tier's own. They differ by the time between the two
// writes, and Expires is earlier by at most five seconds and a HotTimeout. Times that
// the store does not know are zero.
//
// Cases:
//
//   - The hot tier was flushed, or restarts empty: step 1 finds no record, step 2
//     decides, step 3 fills.
//   - The hot tier lost its last writes in a failover. A lost claim does no harm,
//     because step 2 decides. A lost completion leaves no record, or the
//     holder's claim: step 2 finds the response, and step 3 fills, at once or when
//     that claim has ended. A lost release leaves a claim, with the same effect.
//   - The hot tier is cut off from one process and not from another. Both share the
//     durable tier, which is enough for claim 1. A response that one process
//     completes, the other finds by step 2. The same holds if each process has its
//     own hot tier, but Forget then reaches only one hot tier.
//   - The hot tier is slow, and a write arrives after its call was given up. A late
//     claim ends by itself. A late response is correct, and is dropped late by the
//     same time.
//   - The hot tier returns after an outage. It may hold claims, which have no effect,
//     and finished records that were correct (claim 2).
//   - The durable tier is down. A finished key in the hot tier is replayed. For any
//     other key, Acquire returns the durable tier's error, and the policy decides.
//     Complete returns the error too, the engine repeats Complete, and the hot tier
//     gets no result before the durable tier.
//   - The tiers disagree. If the hot tier lacks a record, step 3 repairs
//     that. It may have a finished record that the durable tier does not have, after
//     Forget or with too long a RefillFor. The difference shows when a new run
//     completes and the hot tier refuses the new response. The store then replaces
//     the old record if the hot tier is a [storage.Inspector]; otherwise the old
//     record ends by itself. If the durable tier has lost an acknowledged record, the
//     hot tier's record still protects the key.
//   - The hot tier holds an unreadable record. The store logs the record,
//     and removes it if the hot tier is an Inspector. Step 2 decides. For an
//     unreadable record in the durable tier, Acquire returns an error; before that,
//     step 1 may have replayed the record from the hot tier.
//
// A process may crash between any two steps.
//
//   - After step 1: a claim in the hot tier remains, and ends by itself. The key is
//     unclaimed.
//   - After step 2, or in the handler, or before the durable tier has completed: the
//     key is abandoned, and taken over by the durable tier's rules.
//   - Between the two writes of Complete: the key is finished, and step 3 fills.
//   - Between the two writes of Release or Extend: an outdated claim in the hot tier
//     remains. It ends by itself, and step 2 does not wait for it.
//   - Within Forget: the record stays, and is served from the durable tier.
//
// # Limits
//
// This store is exactly as safe as its durable tier. The durable tier must keep the
// acknowledged writes, see pgstore about synchronous_commit.
//
// A hot tier can lose a Forget in a failover, or when it is restored from an old
// backup. It then replays the forgotten response until an operator repeats the Forget
// or the record ends.
//
// Instances that use only the hot store and instances that use both stores must not
// serve the same keys, because the former do not read the durable tier. When you move
// from redisstore to tieredstore, stop the last old instance before the first new
// instance starts. The finished records of the old instances are replayed, and the
// tombstones of finished keys are found. What the old instances abandoned is forgotten.
// Until these records end, the hot tier alone has them: it must not evict or lose them.
package tieredstore
