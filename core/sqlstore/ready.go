package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

func (s *Store) newRecords() *sqlrows.Records {
	return &sqlrows.Records{
		Package: "sqlstore", Pool: runner{s: s}, Form: &s.dialect.Form, Table: s.table, Proof: &s.proof, Swept: s.swept, Logger: s.logger,
		Again: isRepeatable, Barred: isBarred, Duplicate: isDuplicate, Explained: s.explained,
	}
}

// Check implements [storage.Checker]. It runs four statements that need a right each
// and change no row, and reads the columns, types and keys of the table. A table that is
// not as the migrations create it is a wrapped storage.ErrNotStorable that names the
// column, with what was found and expected. So are row-level security that is active for the
// role, and a connection that does not commit. The first claim of a process checks too.
func (s *Store) Check(ctx context.Context) error {
	if err := s.records.Retry(ctx, func() error { return s.proof.Check(ctx) }); err != nil {
		return fmt.Errorf("sqlstore: check: %w", s.explained(err))
	}
	return nil
}

func (s *Store) proveAll(ctx context.Context) error {
	probes := s.dialect.Probes(s.table)
	if err := s.probe(ctx, probes[0]); err != nil { // it needs the right to see the table
		return err
	}
	if _, err := ask(ctx, s, func() (struct{}, error) { return struct{}{}, s.dialect.Prove(ctx, session{s.db}, s.table) }); err != nil {
		return err
	}
	return s.probe(ctx, probes[1:]...) // they name columns
}

func (s *Store) probe(ctx context.Context, texts ...string) error {
	for _, text := range texts {
		if _, err := inTurn(ctx, s, func() (sql.Result, error) { return s.db.ExecContext(ctx, text) }); err != nil {
			return sqlrows.ProbeFailure(faultOf(err).state, err)
		}
	}
	return nil
}

// Examine implements [storage.Examiner]. It reads the settings of the database that
// decide which records survive a crash and which responses are refused, and takes a key of
// its own through a whole request.
func (s *Store) Examine(ctx context.Context) []storage.Finding {
	findings := []storage.Finding{s.examineRights(ctx)}
	for _, c := range s.dialect.examine {
		finding, _ := ask(ctx, s, func() (storage.Finding, error) { return c.Examine(ctx, session{s.db}, s.table), nil })
		findings = append(findings, finding)
	}
	return append(findings, s.records.ExamineSweeping(ctx, "sweeping"), examination.Canary(ctx, "canary", s))
}

func (s *Store) examineRights(ctx context.Context) storage.Finding {
	if err := s.Check(ctx); err != nil {
		return storage.Finding{Check: "table and rights", Grade: storage.Mend, Seen: err.Error(), Advice: "mend the cause that the error names, see docs/sql.md"}
	}
	return storage.Finding{Check: "table and rights", Grade: storage.Good, Seen: s.table}
}
