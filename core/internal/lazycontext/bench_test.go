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
	now := time.Now()
	b.Run("lazycontext", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c lazycontext.Context
			if c.Detach(parent, now, time.Hour).Err() != nil {
				b.Fatal("the context has ended")
			}
			c.Release()
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithDeadline(context.WithoutCancel(parent), now.Add(time.Hour))
			if ctx.Err() != nil {
				b.Fatal("the context has ended")
			}
			cancel()
		}
	})
}
