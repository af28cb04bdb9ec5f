package pgstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
)

// preparationDeadline bounds a preparation: six round trips for dialling, TLS and
// authentication, and four for the statements after that.
const preparationDeadline = 10 * time.Second

// readiness is the store's knowledge about its database. The zero value has none.
type readiness struct {
	// proven: the role has every right, and the table is as expected, so Acquire need not
	// check again.
	proven atomic.Bool
	// pooled: there is a pooler before the server, and the next statement may run in
	// another session.
	pooled atomic.Bool

	mutex   sync.Mutex
	running *preparation // nil without a running preparation
}

// preparation opens one connection of the pool for requests, independently of the
// request that first needed the connection. If a round trip takes 180 ms, opening a
// connection takes longer than a request may take.
type preparation struct {
	done chan struct{} // closed at the end
	err  error         // read after done
}

// Check implements [storage.Checker]. It reads the role's rights, and the columns, types
// and keys of its table. A table that is not as the migrations create it is a
// wrapped storage.ErrNotStorable that names the column, with what was found and expected.
// The first claim of a process checks too. Check also opens a connection for requests, so
// that a program that calls Check before it serves has no slow first request.
func (s *Store) Check(ctx context.Context) error {
	if err := s.prepare().wait(ctx); err != nil {
		return fmt.Errorf("pgstore: check: %w", s.explained(err))
	}
	return nil
}

// ready returns nil once the store has proven all rights. It checks until then.
func (s *Store) ready(ctx context.Context) error {
	if s.readiness.proven.Load() {
		return nil
	}
	return s.prepare().wait(ctx)
}

// afterPreparation waits for the first preparation, if one is running, because a
// second connection would be ready later than the first. It ignores the result.
func (s *Store) afterPreparation(ctx context.Context) {
	if s.readiness.proven.Load() {
		return
	}
	s.readiness.mutex.Lock()
	running := s.readiness.running
	s.readiness.mutex.Unlock()
	if running != nil {
		_ = running.wait(ctx)
	}
}

func (p *preparation) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for a connection: %w", ctx.Err())
	}
}

// prepare begins a preparation, or returns the running one. A preparation ends within
// ten seconds, and when the pool is closed.
func (s *Store) prepare() *preparation {
	r := &s.readiness
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.running != nil {
		return r.running
	}
	p := &preparation{done: make(chan struct{})}
	r.running = p
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), preparationDeadline)
		defer cancel()
		p.err = recovered(func() error { return s.prepareConnection(ctx) })
		r.mutex.Lock()
		r.running = nil
		r.mutex.Unlock()
		close(p.done)
	}()
	return p
}

// prepareConnection checks the role's rights (case 38) and the table, and prepares the statements
// of every first-time request.
func (s *Store) prepareConnection(ctx context.Context) error {
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer pooled.Release()
	found, err := s.rightsOf(ctx, s.unprepared(pooled))
	if err != nil {
		return err
	}
	s.readiness.pooled.Store(found.backend != int64(pooled.Conn().PgConn().PID()))
	if err = s.check(found); err == nil {
		err = tables.Prove(ctx, session{s.unprepared(pooled)}, s.table)
	}
	s.readiness.proven.Store(err == nil)
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
