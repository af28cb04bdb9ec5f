//go:build !race

package storetest

// manyKeys are the keys of the cases with many keys: pages of 1000 records do not hold them all.
const manyKeys = 10_000
