package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const byHandText = "*By hand* has the shape of the nearest other library: a claim with a token, SHA-256 of the body's bytes, and one record that is " +
	"settled by its token. It has no renewal, no canonical form, no sketch, no policies and no events."

const (
	guardedMemory    = "A guard, records in memory, %d at once"
	guardedRedis     = "A guard, records in Redis, %d at once"
	guardedPipelined = "A guard, records in Redis, %d at once, auto-pipelining"
	guardedPostgres  = "A guard, records in PostgreSQL, %d at once"

	oneWrite, oneRead = "one write", "one read"

	// postgresPool is the number of connections that all callers share, in every arm.
	postgresPool = 32
)

// guardedCallers are the numbers of callers in most tables of guards.
var guardedCallers = []int{1, 16, 64}

// guarded compares whole requests, in process: oncekey, a guard by hand, and the least work
// that keeps a response.
func guarded(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{Title: "A guard on each store", Text: []string{
		"Calls of the handler in this process, without HTTP, from callers that wait for each response. " + byHandText + " *One write* is the bare handler and a single " +
			"write of its response under a new key (a map, SET, INSERT), *one read* the handler and a read by key. No guard does less, unless calls share a " +
			"command or a commit: pgstore's do. *DBOS workflow* is dbos-transact-golang, a durable engine, on the same server with a pool of the same size: a workflow of one step, whose id is the key. " +
			"It compares no payloads. *x by hand* and *x least* compare requests a second, first-time requests with *one write*, replays with *one read*. " +
			"A microsecond of CPU is a second for a million requests.",
	}}
	inMemory := backend{name: guardedMemory, callers: guardedCallers, processors: 1, services: guardedInMemory()}
	if err := s.compareGuards(ctx, &section, inMemory); err != nil {
		return section, err
	}
	for _, on := range []backend{{name: guardedRedis, callers: guardedCallers}, {name: guardedPipelined, callers: []int{256}}} {
		if err := s.guardedOnRedis(ctx, &section, on); err != nil {
			return section, err
		}
	}
	err := s.guardedOnPostgres(ctx, &section)
	return section, err
}

func (s *suite) compareGuards(ctx context.Context, section *report.Section, on backend) error {
	return s.compareServices(ctx, section, on, called, speedColumn("x by hand", likeByHand), speedColumn("x least", leastOf))
}

// likeByHand is the arm by hand for the same kind of request.
func likeByHand(arm string) string { return likewise(arm, byHandFirst, byHandReplay) }

// leastOf is the least work for the same kind of request.
func leastOf(arm string) string { return likewise(arm, oneWrite, oneRead) }

func likewise(arm, first, replay string) string {
	switch {
	case arm == bareServiceName:
		return arm // compared with none
	case strings.HasSuffix(arm, ": replay") || arm == oneRead:
		return replay
	default:
		return first
	}
}

// least is the bare handler and one call of a store.
func least(call func(ctx context.Context, key string) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := call(r.Context(), r.Header.Get(core.KeyHeader)); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		pay(w, r)
	})
}

// withLeast adds the least work and the bare handler to the services of guards.
func withLeast(guards []service, write, read maker) []service {
	return append(guards, service{name: oneWrite, fresh: write}, service{name: oneRead, fresh: read, replay: true}, bareService)
}

func guardedInMemory() []service {
	kept := func(context.Context) (http.Handler, error) {
		var mu sync.Mutex
		all := make(map[string][]byte)
		return least(func(_ context.Context, key string) error {
			mu.Lock()
			defer mu.Unlock()
			if all[key] == nil {
				all[key] = append([]byte(nil), response...)
			}
			return nil
		}), nil
	}
	return withLeast(append(both("oncekey", oursInMemory, oursInMemory), both("by hand", byHandInMemory, byHandInMemory)...), kept, kept)
}

func (s *suite) guardedOnRedis(ctx context.Context, section *report.Section, on backend) error {
	if s.redis == nil {
		return nil
	}
	clients, err := s.redisClients(on.name == guardedPipelined)
	defer clients.close()
	if err != nil {
		return err
	}
	set := func(client redis.UniversalClient) (http.Handler, error) {
		return least(func(ctx context.Context, key string) error { return client.Set(ctx, key, response, 0).Err() }), nil
	}
	known := newKey()
	if err := clients.steady.Set(ctx, known, response, 0).Err(); err != nil {
		return err
	}
	get := least(func(ctx context.Context, _ string) error { return clients.steady.Get(ctx, known).Err() })
	on.services = withLeast(append(clients.both("oncekey", onceKeyOnRedis), clients.both("by hand", byHandOnRedis)...), clients.on(clients.emptied, set), same(get))
	on.server = s.redis.ProcessorTime
	return s.compareGuards(ctx, section, on)
}

// pool opens connections to PostgreSQL.
func (d *databases) pool(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(d.postgres.DSN())
	if err != nil {
		return nil, err
	}
	config.MaxConns = postgresPool
	return pgxpool.NewWithConfig(ctx, config)
}

// ageWAL gives the server WAL files to write to, as a server that has run for a day reuses
// its files. A new server creates a file for every 16 MB, and all commits wait for that.
func ageWAL(ctx context.Context, pool *pgxpool.Pool, files int) error {
	for range min(files, walFiles) {
		// Nothing is switched if nothing was written since the last time.
		if _, err := pool.Exec(ctx, "SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()"); err != nil {
			return err
		}
	}
	_, err := pool.Exec(ctx, "CHECKPOINT") // the files before it are reused
	return err
}

func (s *suite) guardedOnPostgres(ctx context.Context, section *report.Section) error {
	if s.postgres == nil {
		return nil
	}
	pool, err := s.pool(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pgstore.Migrate(ctx, pool); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, peers.HandTable+`;
CREATE TABLE IF NOT EXISTS least (key text COLLATE "C" PRIMARY KEY, payload bytea NOT NULL)`); err != nil {
		return err
	}
	const filesPerRound = 16 // those that the arms of a round write, and some more
	if err := ageWAL(ctx, pool, filesPerRound*s.rounds); err != nil {
		return err
	}
	services, err := guardedOnPool(ctx, pool)
	if err != nil {
		return err
	}
	own, err := s.pool(ctx)
	if err != nil {
		return err
	}
	defer own.Close()
	durable, stop, err := peers.DBOS(ctx, own, response)
	defer stop()
	if err != nil {
		return err
	}
	return s.compareGuards(ctx, section, backend{
		name: guardedPostgres, callers: []int{1, 16, 64, 256}, server: s.postgres.ProcessorTime,
		services: append(services, both("DBOS workflow", same(durable), same(durable))...),
	})
}

func guardedOnPool(ctx context.Context, pool *pgxpool.Pool) ([]service, error) {
	ours, err := onceKey(pgstore.New(pool))
	if err != nil {
		return nil, err
	}
	known := newKey()
	insert := func(ctx context.Context, key string) error {
		_, err := pool.Exec(ctx, `INSERT INTO least (key, payload) VALUES ($1, $2)`, key, response)
		return err
	}
	read := func(ctx context.Context, _ string) error {
		var payload []byte
		return pool.QueryRow(ctx, `SELECT payload FROM least WHERE key = $1`, known).Scan(&payload)
	}
	theirs := byHand(peers.HandPostgres{Pool: pool})
	guards := append(both("oncekey", same(ours), same(ours)), both("by hand", same(theirs), same(theirs))...)
	return withLeast(guards, same(least(insert)), same(least(read))), insert(ctx, known)
}

// beyondByHand is the reason of guardedTargets.
const beyondByHand = "the column *least* of *What a guard costs* is the floor of the same run: one write of the response, or one read. Beside by hand the guard has a lease that it renews, a canonical fingerprint, a sketch and events."

// guardedTargets are the aims against the guard by hand.
func guardedTargets() (all []target) {
	for _, on := range []struct {
		name    string
		callers []int
		first   float64
		why     string
	}{
		{guardedMemory, []int{1}, 0.85, "by hand hardly does more than claim and keep: it took 1.4 times two SHA-256 sums and json.Valid (*floor*). What a guard promises beside that takes more: the canonical walk, the digest, the memory of a run and the store's calls alone took 3.5 times that floor (`go test ./core -run '^$' -bench BenchmarkPartsOfAFirst`)."},
		{guardedRedis, []int{16, 64}, 1, beyondByHand},
		{guardedPostgres, guardedCallers, 1, beyondByHand},
	} {
		for _, callers := range on.callers {
			name := fmt.Sprintf(on.name, callers)
			all = append(all,
				target{name + ", first : by hand", false, on.first, speed(name, oursFirst, byHandFirst), on.why},
				target{name + ", replay : by hand", false, 1, speed(name, oursReplay, byHandReplay), beyondByHand})
		}
	}
	return all
}
