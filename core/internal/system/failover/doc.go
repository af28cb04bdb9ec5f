// Package failover contains only tests. They kill the masters of real Redis Clusters, and
// masters that Sentinel watches, under engines that use them.
//
// Each test has two engines with one client each, in place of two processes. The
// responses alone do not show the side effects, so the handlers of both engines also count
// their runs in a ledger.
//
// The tests cite the cases of the design's list by number. Two tests show a limit instead
// of a promise, and its remedy: see TestAsynchronousFailoverCanLoseAClaim and
// TestTieredStoreLosesNothingInAFailover. TestClaimThatAllReplicasHaveSurvivesAFailover is
// between the two.
package failover
