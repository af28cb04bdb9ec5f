package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// Examine implements [storage.Examiner]. It reads the server's settings and catalogs,
// tries a statement of each right, and takes a key of its own through a whole request. A
// check that this role may not make is [storage.Skipped], and says how to make it.
func (s *Store) Examine(ctx context.Context) []storage.Finding {
	db := s.unprepared(s.pool)
	trip := func(ctx context.Context) error { return session{db}.Run(ctx, `SELECT 1`) }
	var steps []examination.Step
	for _, c := range sqlrows.PostgreSQLChecks() {
		steps = append(steps, examination.One(c.Name, func(ctx context.Context, _ string) storage.Finding {
			f := c.Examine(ctx, session{db}, s.table)
			if c.Name == "durability" && f.Grade == storage.Good && s.asynchronousClaims {
				return examination.Look(c.Name, f.Seen+", AsynchronousClaims", "a crash may lose the last claims, and their requests run twice")
			}
			return f
		}))
	}
	server := examination.Server{Reach: trip, Trip: trip, Clock: func(ctx context.Context) (at time.Time, err error) {
		err = session{db}.one(ctx, `SELECT clock_timestamp()`, &at)
		return at, err
	}}
	return examination.Run(ctx, server, s, append(steps,
		examination.One("schema version", func(ctx context.Context, check string) storage.Finding {
			return s.records.ExamineVersion(ctx, session{db}, check, len(Migrations()))
		}),
		examination.One("table and rights", s.examineRights),
		examination.One("pooler", s.examinePooler),
		examination.One("sweeping", s.records.ExamineSweeping),
	)...)
}

// examineRights reads and tries the rights of the role, and reads the table.
func (s *Store) examineRights(ctx context.Context, check string) storage.Finding {
	if err := s.Check(ctx); err != nil {
		return examination.Mend(check, err.Error(), "mend the cause that the error names, such as a GRANT or a migration, see docs/sql.md")
	}
	return examination.Good(check, s.table)
}

func (s *Store) examinePooler(ctx context.Context, check string) storage.Finding {
	if err := s.Check(ctx); err != nil {
		return examination.Skipped(check, err.Error(), "mend the rights first")
	}
	seen := fmt.Sprintf("a pooler, query mode %s", s.mode)
	switch {
	case !s.pooled.Load():
		return examination.Good(check, "no pooler, query mode "+s.mode.String())
	case s.mode == pgx.QueryExecModeExec, s.mode == pgx.QueryExecModeSimpleProtocol:
		return examination.Good(check, seen)
	default:
		return examination.Look(check, seen, "set default_query_exec_mode=exec: in transaction mode the next statement may run in another session")
	}
}
