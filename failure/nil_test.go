package failure_test

import (
	"context"
	"testing"

	"github.com/oncekey/oncekey/failure"
	"github.com/oncekey/oncekey/internal/testkit"
)

// Case 65: no nil makes a handler panic.
func TestNil(t *testing.T) {
	t.Parallel()
	var none context.Context
	for name, ctx := range map[string]context.Context{
		"nil":                     none,
		"nil marks":               failure.NewContext(t.Context(), nil),
		"a nil published context": context.WithValue(t.Context(), failure.ContextKey, none), //nolint:staticcheck // the key is a string by design
	} {
		if failure.MarkRetryable(ctx, "why") || failure.MarkExecuted(ctx) {
			t.Errorf("%s: a mark counts", name)
		}
	}
	testkit.Equal(t, failure.Classify(failure.Outcome{}), failure.ClassCache, "the zero Outcome is not kept")
}
