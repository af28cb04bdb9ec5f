// Package failover holds tests alone: they kill the masters of real Redis
// Clusters, and those that Sentinel watches, under engines that use them.
//
// Each test has two engines, with a client of their own each: they stand for
// two processes. What clients are told is half of the truth; the other half is
// a ledger, in which the handlers of both count what they really did.
//
// The tests cite the cases of the design's list by number. Two of them show a
// limit rather than a promise, and how to live with it: see
// TestAsynchronousFailoverCanLoseAClaim and TestTieredStoreLosesNothingInAFailover.
// Between the two is TestClaimThatAllReplicasHaveSurvivesAFailover.
package failover
