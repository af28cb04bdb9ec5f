package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
)

// Check implements [storage.Checker]. It reads the role's rights, and the columns, types
// and keys of its table. A table that is not as the migrations create it is a wrapped
// storage.ErrNotStorable that names the column, and so is row-level security that is active
// for the role, and a publication that lets nobody change its rows. The first claim of a process
// checks too. A server that takes no writes,
// such as a standby, is an error of Check alone, because it replays. Check also opens a
// connection for requests, so that no first request waits for it.
func (s *Store) Check(ctx context.Context) error {
	err := s.proof.Check(ctx)
	if err == nil && s.readOnly.Load() {
		err = errReadOnly
	}
	if err != nil {
		return fmt.Errorf("pgstore: check: %w", s.explained(err))
	}
	return nil
}

var errReadOnly = errors.New("the server takes no writes: transaction_read_only is on, as on a standby")

// prove opens one connection of the pool for requests, independently of the request that
// first needed the connection: if a round trip takes 180 ms, opening a connection takes
// longer than a request may take. It checks the role's rights and the table, tries the rights, and
// prepares the statements of every first-time request.
func (s *Store) prove(ctx context.Context) error {
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release(pooled)
	on := session{s.unprepared(pooled)}
	backend, err := s.checkRights(ctx, on)
	if backend != 0 {
		s.pooled.Store(backend != int64(pooled.Conn().PgConn().PID()))
	}
	if err == nil {
		err = tables.Prove(ctx, on, s.table)
	}
	if err == nil && !s.readOnly.Load() {
		err = on.Run(ctx, strings.Join(s.records.Form.Probes(s.table), ";"))
		err = sqlrows.ProbeFailure(codeOf(err), err)
	}
	if err != nil || !s.prepares() {
		return err
	}
	for _, name := range []sqlrows.Name{sqlrows.FirstOrRead, sqlrows.Read, sqlrows.Complete, sqlrows.Extend} {
		text := s.statements[name].Text
		if _, err := pooled.Conn().Prepare(ctx, text, text); err != nil {
			return err
		}
	}
	return nil
}
