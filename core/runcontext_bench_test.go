package core

import (
	"context"
	"testing"
)

// BenchmarkRunContext is the context of a run whose handler does not wait for it:
// this package's, and one of package context.
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
