package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/storage"
)

// sweepCommand removes expired records from PostgreSQL.
type sweepCommand struct {
	Once  bool          `xor:"when" help:"Sweep once. This is the default."`
	Every time.Duration `xor:"when" placeholder:"DURATION" help:"Sweep again and again, about so often, until a signal."`
	Batch int           `default:"500" help:"Records of one batch, at most 10000."`
}

// mostInABatch is the largest batch that pgstore.Store.Sweep takes.
const mostInABatch = 10_000

// swept is the JSON of a sweep.
type swept struct {
	Removed int64 `json:"removed"`
	TookMs  int64 `json:"tookMs"`
}

// Run implements the command.
func (c *sweepCommand) Run(ctx context.Context, out *printer, where *place) error {
	if c.Every < 0 {
		return usage("--every is %s: give a positive time", c.Every)
	}
	if c.Batch != min(max(c.Batch, 1), mostInABatch) {
		return usage("--batch is %d: give from 1 to %d", c.Batch, mostInABatch)
	}
	store, err := where.postgres()
	if err != nil {
		return err
	}
	for {
		begin := time.Now()
		removed, err := store.Sweep(ctx, c.Batch)
		switch {
		case ctx.Err() != nil && c.Every > 0:
			return nil
		case err != nil:
			return databaseFault(err)
		}
		if err := out.swept(removed, time.Since(begin)); err != nil || c.Every == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every/2 + rand.N(c.Every)): //nolint:gosec // no secret: several sweepers drift apart
		}
	}
}

func (p *printer) swept(removed int64, took time.Duration) error {
	if !p.isTable() {
		return p.document(swept{removed, took.Milliseconds()})
	}
	p.line("swept %d expired records in %s", removed, span(took))
	return nil
}

// migrateCommand brings the tables to the version of this command.
type migrateCommand struct {
	Up     migrateRun    `cmd:"" name:"run" default:"withargs" help:"Run the missing steps. This is the default."`
	Status migrateStatus `cmd:"" help:"Print the version of the tables. Exit code 1: steps are missing."`
}

type migrateRun struct {
	DryRun   bool `xor:"how" help:"Print the missing steps, and run none."`
	PrintSQL bool `xor:"how" name:"print-sql" help:"Print the SQL of the missing steps, and run none. Without --postgres: of all steps."`
}

// Run implements the command.
func (c *migrateRun) Run(ctx context.Context, out *printer, where *place) error {
	table, err := where.table()
	if err != nil {
		return err
	}
	if c.PrintSQL && where.Postgres == "" {
		return out.steps(pgstore.Migrations(table), true)
	}
	pool, current, missing, err := where.missingSteps(ctx)
	switch {
	case err != nil:
		return err
	case c.DryRun || c.PrintSQL:
		return out.steps(missing, c.PrintSQL)
	case len(missing) == 0:
		return out.version(current, current)
	}
	if err := pgstore.Migrate(ctx, pool, table); err != nil {
		return databaseFault(err)
	}
	return out.version(current, missing[len(missing)-1].Version)
}

type migrateStatus struct{}

// Run implements the command.
func (*migrateStatus) Run(ctx context.Context, out *printer, where *place) error {
	_, current, missing, err := where.missingSteps(ctx)
	if err != nil {
		return err
	}
	if err := out.version(current, current); err != nil || len(missing) == 0 {
		return err
	}
	if out.isTable() {
		_ = out.steps(missing, false)
	}
	return errNothing
}

// missingSteps returns the version of the tables, and the steps after it.
func (p *place) missingSteps(ctx context.Context) (pool *pgxpool.Pool, current int, missing []pgstore.Migration, err error) {
	option, err := p.table()
	if err != nil {
		return nil, 0, nil, err
	}
	if pool, err = p.pool(); err != nil {
		return nil, 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout(callTimeout))
	defer cancel()
	table := p.Table + "_migrations"
	var exists bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", pgx.QueryExecModeExec, table).Scan(&exists); err != nil {
		return nil, 0, nil, databaseFault(fmt.Errorf("read %s: %w", table, err))
	}
	if exists {
		if err := pool.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+table, pgx.QueryExecModeExec).Scan(&current); err != nil {
			return nil, 0, nil, databaseFault(fmt.Errorf("read %s: %w", table, err))
		}
	}
	all := pgstore.Migrations(option)
	return pool, current, all[min(current, len(all)):], nil
}

// databaseFault tells a database that cannot be reached from one that refuses.
func databaseFault(err error) error {
	if refused := new(pgconn.PgError); errors.As(err, &refused) || errors.Is(err, storage.ErrStoreForbidden) {
		return err
	}
	return unreachableError{err}
}

// migration is the JSON of a step.
type migration struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	SQL     string `json:"sql,omitempty"`
}

// steps writes steps, with their SQL for a database administrator.
func (p *printer) steps(steps []pgstore.Migration, withSQL bool) error {
	if !p.isTable() {
		all := make([]migration, 0, len(steps))
		for _, step := range steps {
			all = append(all, migration{step.Version, step.Name, step.SQL})
		}
		return p.document(all)
	}
	for _, step := range steps {
		if withSQL {
			fmt.Fprintf(p.out, "-- version %d: %s\nBEGIN;\n%s\nCOMMIT;\n\n", step.Version, step.Name,
				strings.ReplaceAll(step.SQL, "\t", "    ")) // has lines of its own, and a terminal gets a tab as \t
		} else {
			p.line("missing: version %d, %s", step.Version, step.Name)
		}
	}
	return nil
}

// version writes the version of the tables before and after.
func (p *printer) version(before, after int) error {
	newest := len(pgstore.Migrations())
	if !p.isTable() {
		return p.document(map[string]int{"before": before, "version": after, "newest": newest})
	}
	if before != after {
		p.line("tables of version %d are now of version %d", before, after)
		return nil
	}
	p.line("tables of version %d, this command knows %d", after, newest)
	return nil
}
