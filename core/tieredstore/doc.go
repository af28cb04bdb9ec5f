// Package tieredstore puts a fast store in front of a durable one: the hot tier,
// normally redisstore, answers; the durable tier, normally pgstore, remembers.
//
//	hot := redisstore.New(rdb)
//	durable := pgstore.New(pool)
//	guard, err := core.New(tieredstore.New(hot, durable), core.ScopeBy(userID))
//
// A replay is one round trip to the hot tier and touches no database. A first
// run is claimed in both tiers and completed in both: two round trips to each.
// With the hot tier away everything goes on, slower. With the durable tier away
// replays go on, and first runs follow the policy's OnStoreError. Whatever the
// hot tier forgets, loses or invents about a claim, nothing runs twice for it
// (case 17). So it may evict what it likes: what redisstore says about
// maxmemory-policy does not apply to it here.
//
// # Algorithm
//
// The durable tier alone decides who runs. A lease of this store is a lease of
// the durable tier, with its token, its attempt number and its clock. The hot
// tier is a cache of finished records. What is in progress there grants nothing
// and refuses nothing: it is the right to fill the cache, given to one caller at
// a time, and always ends with its time to live.
//
//	Acquire   1. Ask the hot tier, with a claim of the caller's token that is kept
//	             no longer than its lease. A finished record: replay it, done.
//	          2. Whatever else it said, or failed to say: ask the durable tier, and
//	             return what that says.
//	          3. If it said that the key is finished, and step 1 got the claim: fill
//	             the hot tier. If it said that somebody else is running: release the
//	             claim of step 1.
//	Complete  the durable tier; when it has agreed, the hot one.
//	Release   the durable tier; when it has agreed, the hot one.
//	Extend    the durable tier; when it has agreed, the hot one.
//	Commit    of a transaction, as Complete.
//	Forget    closes the key in the hot tier, with a claim of its own that nobody
//	          can fill; then forgets it in the durable tier.
//
// No failure of the hot tier is the caller's: it is logged, see [Logger]. A call
// at it has [HotTimeout], and before the durable tier has been asked at most half
// of the time that is left. After five failures in a row it is left alone for a
// second at a time, and then one call tries it.
//
// A key in progress costs a round trip to each tier. Believing the hot tier there
// would save a SELECT, and would tell clients "in progress" about a key that was
// finished, or freed, in words the hot tier has lost.
//
// # Why it is correct
//
// Claim 1: nothing runs twice for what the hot tier says. The only way to a lease
// is step 2, and that is the durable tier's own contract; the hot tier's answer
// is not among its arguments.
//
// Claim 2: a finished record in the hot tier is, or was, one of the durable tier.
// There are two writers, Complete and step 3, and both write what the durable
// tier has agreed to before; a caller who repeats a Complete does so with the same
// result, as the engine does. A finished record never changes; it ends, when its
// Retain has passed or an operator forgets it. So the hot tier can be late to
// forget, and how late is bounded:
//
//   - Complete hands the same Retain to both, one after the other: late by the
//     time between the two writes, at most five seconds. Nothing is written to
//     the hot tier later than that after the durable tier was asked.
//   - Step 3 does not know how much of Retain is left. It fills for [RefillFor],
//     and no longer than a hundredth of the claim's Retain; then it asks again.
//
// To be late to forget is to replay an answer a moment after its time. It never
// runs anything.
//
// Now case by case.
//
//   - The hot tier was flushed, or restarts empty: step 1 finds nothing, step 2
//     decides, step 3 fills.
//   - It lost its last writes in a fail-over. A lost claim is one that nobody
//     needs: step 2 decides (case 17). A lost completion leaves nothing, or the
//     holder's claim: step 2 finds the answer, and step 3 fills, at once or when
//     that claim has run out. A lost release leaves a claim: the same.
//   - It is partitioned from one process and not from another. They share the
//     durable tier, which is all that claim 1 needs. What the one completes, the
//     other finds by step 2. If each has a hot tier of its own it is no different,
//     but Forget then reaches only one of them.
//   - It is slow, and a write arrives after its call was given up: a claim ends by
//     itself, and an answer is true, and forgotten late by as much.
//   - It comes back from an outage: it may hold claims, which decide nothing, and
//     finished records that were true (claim 2).
//   - The durable tier is down. A finished key that the hot tier has is replayed.
//     For any other, Acquire returns the durable tier's error, and the policy
//     decides. Complete returns it too, the engine repeats it, and the hot tier
//     learns nothing before.
//   - The tiers disagree (case 18). The hot tier has less: step 3 repairs it. It
//     has a finished record, and the durable tier something else, after Forget
//     or a RefillFor too long: nobody looks, until a new run completes and the
//     hot tier refuses its answer. That is repaired if the hot tier is a
//     [storage.Inspector], or else when the record ends. If the durable tier has lost
//     what it acknowledged, the hot tier's answer goes on to protect the key.
//   - The hot tier holds a record that cannot be read (case 20): reported, removed
//     if it is an Inspector, and step 2 decides. An unreadable record in the
//     durable tier is the caller's error; step 1 may have replayed it before.
//
// A process may die between any two steps.
//
//   - After step 1: a claim in the hot tier, which ends by itself; the key is free.
//   - After step 2, or in the handler, or before the durable tier has completed:
//     the key is abandoned, and taken over by the durable tier's rules (cases 3, 4).
//   - Between the two writes of Complete: finished, and step 3 fills.
//   - Between the two of Release or Extend: a claim in the hot tier that is too old.
//     It ends by itself; step 2 does not wait for it.
//   - Within Forget: the record stands, and comes from the durable tier.
//
// # What it does not promise
//
// The durable tier must keep what it acknowledges, see pgstore about
// synchronous_commit: this store is as safe as its durable tier, and no safer.
//
// A hot tier that loses a Forget, in a fail-over or because it is restored from an
// old backup, replays the forgotten answer until somebody repeats the Forget or
// the record ends.
//
// Instances that use the hot store alone and instances that use both must not
// serve the same keys: the former do not ask the durable tier. When moving from
// redisstore to this, stop the last of the old ones before the first of the new
// ones starts. Finished records that they leave are replayed.
package tieredstore
