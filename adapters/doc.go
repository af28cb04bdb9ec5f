// Package adapters holds one adapter a router, in a folder each, and the
// contract test that keeps them from drifting apart: every promise to clients
// is tested over all of them.
package adapters
