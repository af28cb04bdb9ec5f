package lazycontext_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/lazycontext"
)

// BenchmarkDetach compares this package with package context, for one call to a store
// that never waits.
func BenchmarkDetach(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context())
	defer cancel()
	deadline := time.Now().Add(time.Hour)
	b.Run("lazycontext", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c lazycontext.Context
			if c.Detach(parent, deadline).Err() != nil {
				b.Fatal("the context has ended")
			}
			c.Release()
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithDeadline(context.WithoutCancel(parent), deadline)
			if ctx.Err() != nil {
				b.Fatal("the context has ended")
			}
			cancel()
		}
	})
}
