// Package endtoend holds tests alone: they run the payments example as two real
// processes behind one real Redis, one real PostgreSQL or both, and stop, kill and
// freeze all of them.
//
// What a client is told is half of the truth. The other half is the ledger file
// to which both processes append what they really did, and for transfers the
// tables themselves: each test counts in them.
//
// TestSoakCrashes does all of it at random, for as long as ONCEKEY_SOAK says.
// Tests cite the cases of the design's list by number.
package endtoend
