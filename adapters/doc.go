// Package adapters holds one folder per router adapter, and a contract test that runs
// every promise to clients over all adapters, so that the adapters cannot drift apart.
package adapters
