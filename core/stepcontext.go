package core

import (
	"context"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/guarded"
)

// unrecorded returns the context of a request that the guard of a route lets through.
func unrecorded(ctx context.Context, route *Route) context.Context {
	return context.WithValue(ctx, stepKey{}, route)
}

// unprotected is unrecorded under FailOpen: the request has its keys, by which a provider knows its retry.
func unprotected(ctx context.Context, i *identity) context.Context {
	return context.WithValue(unrecorded(ctx, i.route), runKey{}, &Run{identity: i})
}

// recorderOf returns the value of stepKey, or nil.
func recorderOf(ctx context.Context) any { return guarded.Value(ctx, stepKey{}) }

// newStepContext returns the context for the function of a step, and a function that ends
// the context.
func newStepContext(ctx context.Context, r *Run) (*stepContext, func()) {
	inner, cancel := context.WithCancelCause(storage.WithoutTransaction(ctx))
	stop := context.AfterFunc(&r.context, func() { cancel(context.Cause(&r.context)) })
	return &stepContext{inner, r}, func() {
		stop()
		cancel(nil)
	}
}

// stepContext is the context of a step's function.
type stepContext struct {
	context.Context
	run *Run // nil where the guard let the request through
}

// Err also reports the end of the run, as soon as the run's own context does.
func (c *stepContext) Err() error {
	if c.run != nil {
		if err := c.run.context.Err(); err != nil {
			return err
		}
	}
	return c.Context.Err()
}

// Value finds the run's values too: a router's own context type may hide them.
func (c *stepContext) Value(key any) any {
	if key == (stepKey{}) {
		return inStep
	}
	found := c.Context.Value(key)
	if found == nil && c.run != nil {
		return c.run.context.Value(key)
	}
	return found
}
