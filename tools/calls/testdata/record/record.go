// Package record keeps the calls of one goroutine, in order.
package record

import (
	"bytes"
	"runtime"
	"sync/atomic"
)

// returned is the number of a return.
const returned = -1

var (
	recorded atomic.Pointer[[]byte] // the goroutine; nil: none
	trace    []int                  // of the recorded goroutine alone
)

// Begin records the calls of this goroutine from now on, until Stop.
func Begin() {
	trace = nil
	id := goroutine()
	recorded.Store(&id)
}

// Stop returns the numbers of the functions that were called since Begin, and -1 for each return.
func Stop() []int {
	recorded.Store(nil)
	return trace
}

// Enter records a call of a function. Call the returned function at the function's end.
func Enter(function int) (leave func()) {
	if id := recorded.Load(); id == nil || !bytes.Equal(*id, goroutine()) {
		return func() {}
	}
	trace = append(trace, function)
	return func() { trace = append(trace, returned) }
}

// goroutine is the head of the goroutine's stack: goroutine 18.
func goroutine() []byte {
	var stack [64]byte
	head, _, _ := bytes.Cut(stack[:runtime.Stack(stack[:], false)], []byte(" ["))
	return bytes.Clone(head)
}
