// Package endtoend contains only tests. They run the payments example as two real
// processes behind one real Redis, one real PostgreSQL or both, and stop, kill and
// freeze all of them.
//
// The responses alone do not show the side effects. Both processes append their side
// effects to a ledger file, and transfers to tables: each test counts there too.
//
// Tests cite the cases of the design's list by number. Package soak makes random faults.
package endtoend
