package memstore

import (
	"context"
	"fmt"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Examiner = (*Store)(nil)

// muchFilled is the fill, in percent of a bound, from which new keys are soon refused.
const muchFilled = 80

// Examine implements [storage.Examiner]. It compares the records with the bounds, and
// takes a key of its own through a whole request.
func (s *Store) Examine(ctx context.Context) []storage.Finding {
	return []storage.Finding{
		s.filled("records", "records", "MaxRecords", s.records.Load(), s.maxRecords),
		s.filled("memory", "bytes", "MaxBytes", s.bytes.Load(), s.maxBytes),
		examination.Canary(ctx, "canary", s),
	}
}

func (s *Store) filled(check, unit, option string, used, limit int64) storage.Finding {
	const all = 100
	seen := fmt.Sprintf("%d of %d %s", used, limit, unit)
	switch {
	case s.cache, used*all < limit*muchFilled:
		return examination.Good(check, seen)
	case used >= limit:
		return examination.Mend(check, seen, "raise "+option+", or shorten the policies' TTL: new keys get 503")
	default:
		return examination.Look(check, seen, "raise "+option+", or shorten the policies' TTL, before new keys get 503")
	}
}
