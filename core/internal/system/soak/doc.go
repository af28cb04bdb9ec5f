// Package soak runs the explorer's plans in real time over real stores: see
// TestSoak, and package explore for plans, rules and timelines.
//
// [For] is the loop of every test that make soak runs for longer.
package soak
