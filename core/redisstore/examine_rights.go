package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/storage"
)

// rights tries the commands that requests need.
func (e *examiner) rights(ctx context.Context, check string) storage.Finding {
	err := e.store.Check(ctx)
	switch {
	case errors.Is(err, storage.ErrStoreForbidden):
		return examination.Mend(check, err.Error(), "grant the commands of docs/redis.md: ACL SETUSER <user> ~"+e.store.prefix+
			"* +set +get +pttl +getrange +del +eval +evalsha, with WaitReplicas also +append +wait, with WithScopeLimit +time +zadd +zrem +zscore +zcard +zremrangebyscore +pexpire")
	case err != nil:
		return examination.Mend(check, err.Error(), "mend the cause that the error names")
	default:
		return examination.Good(check, "the server permits each command that requests need")
	}
}

// operators tries the commands of an Inspector.
func (e *examiner) operators(ctx context.Context, check string) storage.Finding {
	_, err := e.store.Lookup(ctx, checkKey)
	if err == nil {
		_, err = e.list(ctx, 1)
	}
	switch {
	case isForbidden(err):
		return examination.Look(check, err.Error(), "grant the command of operators: ACL SETUSER <user> +scan")
	case err != nil:
		return examination.Look(check, err.Error(), "mend the cause that the error names: operators see no record")
	default:
		return examination.Good(check, "the server permits to look up, to list and to settle")
	}
}

// prefix looks for values of other programs among some keys under the prefix.
func (e *examiner) prefix(ctx context.Context, check string) storage.Finding {
	const some = 1000
	l, err := e.list(ctx, some)
	switch {
	case err != nil:
		return examination.Skipped(check, fmt.Sprintf("could not see the keys: %v", err), "grant the right to see them: ACL SETUSER <user> +scan")
	case l.unreadable > 0:
		return examination.Mend(check, fmt.Sprintf("%d of %d values under %q are not records: %v", l.unreadable, l.budget.Looked, e.store.prefix, l.firstUnreadable),
			"give each program a prefix of its own, see Prefix: requests with these keys get 503")
	default:
		return examination.Good(check, fmt.Sprintf("%d values under %q are records", l.budget.Looked, e.store.prefix))
	}
}

// list looks at some keys. It logs no warning.
func (e *examiner) list(ctx context.Context, lookAt int) (*listing, error) {
	filter, page := storage.Filter{States: []storage.State{storage.InProgress}}, storage.Page{Limit: lookAt, LookAt: lookAt}
	l, err := e.store.newListing(filter, page)
	if err == nil {
		_, err = bounded(ctx, e.store, l.page)
	}
	return l, err
}
