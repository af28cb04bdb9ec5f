// Package endtoend holds tests alone: they run the payments example as two real
// processes behind one real Redis, and stop, kill and freeze all three.
//
// What a client is told is half of the truth. The other half is the ledger file
// to which both processes append what they really did: each test counts in it.
// Tests cite the cases of the design's list by number.
package endtoend
