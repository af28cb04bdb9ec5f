package core

import (
	"context"
	"testing"
)

// BenchmarkRunContext compares runContext with package context, for a handler that
// never calls Done.
func BenchmarkRunContext(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.Run("runContext", func(b *testing.B) {
		run := new(Run)
		b.ReportAllocs()
		for b.Loop() {
			var c runContext
			c.begin(parent, run)
			c.end(nil)
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithCancelCause(context.WithoutCancel(parent))
			cancel(nil)
		}
	})
}
