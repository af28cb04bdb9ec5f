package tieredstore

import (
	"context"
	"slices"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Examiner = (*Store)(nil)

// Examine implements [storage.Examiner]. It returns the findings of the durable tier and
// then those of the hot tier, with the tier's name before each check. The hot tier may lose
// its records, so no finding asks it to keep them.
func (s *Store) Examine(ctx context.Context) []storage.Finding {
	hot := examination.Nested(ctx, hotName, s.hot.store)
	for i, f := range hot {
		isRole := f.Check == hotName+": replication" && f.Grade == storage.Mend // a replica, or one that is missing
		if slices.Contains(ofKeeping, f.Check) && (f.Grade == storage.Look || f.Grade == storage.Mend) && !isRole {
			hot[i] = examination.Good(f.Check, f.Seen+"; the durable tier keeps the records")
		}
	}
	return append(examination.Nested(ctx, "durable tier", s.durable), hot...)
}

const hotName = "hot tier"

// ofKeeping are the checks of a store that must not lose a record.
var ofKeeping = []string{hotName + ": eviction policy", hotName + ": persistence", hotName + ": replication"}
