package storetest

import (
	"cmp"
	"context"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// lateModel looks at a context only when its work is done.
type lateModel struct{ *model }

func (m lateModel) Acquire(ctx context.Context, request storage.Request) (storage.Lease, *storage.Record, error) {
	lease, record, err := m.model.Acquire(context.WithoutCancel(ctx), request)
	if ended := ctx.Err(); ended != nil {
		return storage.Lease{}, nil, ended
	}
	return lease, record, err
}

func (m lateModel) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	return cmp.Or(m.model.Complete(context.WithoutCancel(ctx), l, res), ctx.Err())
}

func (m lateModel) Release(ctx context.Context, l storage.Lease) error {
	return cmp.Or(m.model.Release(context.WithoutCancel(ctx), l), ctx.Err())
}

func (m lateModel) Extend(ctx context.Context, l storage.Lease, ttl time.Duration) error {
	return cmp.Or(m.model.Extend(context.WithoutCancel(ctx), l, ttl), ctx.Err())
}
