// Package guarded finds the values of a guarded run in a context. A router's own context
// type may hide them: gin's passes on only values under strings, unless its engine has
// ContextWithFallback. An adapter publishes the run's context there under ContextKey.
package guarded

import "context"

// ContextKey names the context of the guarded run in a router's own context type. The
// value is a context.Context.
const ContextKey = "oncekey.context"

// Value returns the value of key in ctx, or in the guarded run that an adapter published
// in ctx, or nil. A nil ctx has no values.
func Value(ctx context.Context, key any) any {
	if ctx == nil {
		return nil
	}
	if found := ctx.Value(key); found != nil {
		return found
	}
	if run, published := ctx.Value(ContextKey).(context.Context); published {
		return run.Value(key)
	}
	return nil
}
