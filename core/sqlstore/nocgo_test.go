//go:build !cgo || race

package sqlstore_test

var cgo []setUp
