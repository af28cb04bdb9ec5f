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
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
)

const byHandText = "*By hand* has the shape of the nearest other library: a claim with a token, SHA-256 of the body's bytes, and one record that is " +
	"settled by its token. It has no renewal, no canonical form, no sketch, no policies and no events."

const (
	guardedMemory   = "A guard, records in memory, %d at once"
	guardedRedis    = "A guard, records in Redis, %d at once"
	guardedPostgres = "A guard, records in PostgreSQL, %d at once"

	oneWrite, oneRead           = "one write", "one read"
	durableFirst, durableReplay = "DBOS workflow: first", "DBOS workflow: replay"
)

// guardedCallers are the numbers of callers in each table of guards.
var guardedCallers = []int{1, 16, 64}

// guarded compares whole requests, in process: oncekey, a guard by hand, and the least work
// that keeps a response.
func guarded(ctx context.Context, s *suite) (report.Section, error) {
	section := report.Section{Title: "A guard on each store", Text: []string{
		"Calls of the handler in this process, without HTTP, from callers that wait for each response. " + byHandText + " *One write* is the bare handler and a single " +
			"write of its response under a new key (a map, SET, INSERT), *one read* the handler and a read by key. No guard does less, unless calls share a " +
			"command or a commit: pgstore's do. *DBOS workflow* is dbos-transact-golang, a durable engine, on the same server with a pool of the same size: a workflow of one step, whose id is the key. " +
			"It compares no payloads. *x by hand* and *x least* compare requests a second, first-time requests with *one write*, replays with *one read*.",
	}}
	if err := s.compareGuarded(ctx, &section, backend{name: guardedMemory, processors: 1, services: guardedInMemory()}, harness.Plan{}); err != nil {
		return section, err
	}
	for _, compare := range []func(context.Context, *report.Section) error{s.guardedOnRedis, s.guardedOnPostgres} {
		if err := compare(ctx, &section); err != nil {
			return section, err
		}
	}
	return section, nil
}

// compareGuarded compares the services of a backend for each number of callers.
func (s *suite) compareGuarded(ctx context.Context, section *report.Section, on backend, with harness.Plan) error {
	for _, callers := range guardedCallers {
		var arms []harness.Arm
		for _, service := range on.services {
			arm, err := service.called(ctx, callers)
			if err != nil {
				return fmt.Errorf("%s: %w", service.name, err)
			}
			arms = append(arms, arm)
		}
		plan := s.plan(on.processors)
		plan.Server = with.Server
		columns := []column{rateColumn, p50Column, p99Column, cpuColumn}
		if plan.Server != nil {
			columns = append(columns, serverColumn)
			if callers >= 64 {
				plan.Slice *= 4 // several turns for each caller
			}
		}
		if err := s.compare(ctx, section, comparison{fmt.Sprintf(on.name, callers), plan, arms, append(columns,
			speedColumn("x by hand", likeByHand), speedColumn("x least", leastOf))}); err != nil {
			return err
		}
	}
	return nil
}

func isReplay(arm string) bool { return strings.HasSuffix(arm, ": replay") || arm == oneRead }

// likeByHand is the arm by hand for the same kind of request.
func likeByHand(arm string) string { return likewise(arm, byHandFirst, byHandReplay) }

// leastOf is the least work for the same kind of request.
func leastOf(arm string) string { return likewise(arm, oneWrite, oneRead) }

func likewise(arm, first, replay string) string {
	switch {
	case arm == bareServiceName:
		return arm // compared with none
	case isReplay(arm):
		return replay
	default:
		return first
	}
}

// called calls the service's handler in this process. Replays are of many keys in turn,
// because a store may join calls with one key.
func (v service) called(ctx context.Context, callers int) (harness.Arm, error) {
	senders := make([]*exchange, callers)
	renew := func() error {
		handler, err := v.fresh(ctx)
		for i := range senders {
			if err == nil {
				senders[i], err = newExchange(ctx, handler)
			}
		}
		return err
	}
	var keys []string
	arm := harness.Timed(v.name, callers, func(i int) error { return senders[i%callers].send(keys[i%len(keys)], http.StatusCreated) })
	if !v.replay {
		arm.Most = 1 << 16
		arm.Prepare = func(n int) error { keys = newKeys(n); return renew() }
		return arm, nil
	}
	if err := renew(); err != nil {
		return arm, err
	}
	keys = newKeys(knownRecords)
	return arm, harness.Parallel(callers, len(keys), func(caller, i int) error { return senders[caller].send(keys[i], http.StatusCreated) })
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

// same returns one handler each time.
func same(handler http.Handler) func(context.Context) (http.Handler, error) {
	return func(context.Context) (http.Handler, error) { return handler, nil }
}

func guardedInMemory() []service {
	ours := func(context.Context) (http.Handler, error) { return onceKey(newMemory()) }
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
	return []service{
		{name: oursFirst, fresh: ours},
		{name: oursReplay, fresh: ours, replay: true},
		{name: byHandFirst, fresh: byHandInMemory},
		{name: byHandReplay, fresh: byHandInMemory, replay: true},
		{name: oneWrite, fresh: kept},
		{name: oneRead, fresh: kept, replay: true},
		{name: bareServiceName, fresh: barePay, replay: true},
	}
}

func (s *suite) guardedOnRedis(ctx context.Context, section *report.Section) error {
	if s.redis == nil {
		return nil
	}
	clients, err := s.redisClients(false)
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
	return s.compareGuarded(ctx, section, backend{name: guardedRedis, services: []service{
		{name: oursFirst, fresh: clients.on(clients.emptied, onceKeyOnRedis)},
		{name: oursReplay, fresh: clients.on(clients.steady, onceKeyOnRedis), replay: true},
		{name: byHandFirst, fresh: clients.on(clients.emptied, byHandOnRedis)},
		{name: byHandReplay, fresh: clients.on(clients.steady, byHandOnRedis), replay: true},
		{name: oneWrite, fresh: clients.on(clients.emptied, set)},
		{name: oneRead, fresh: same(get), replay: true},
		{name: bareServiceName, fresh: barePay, replay: true},
	}}, harness.Plan{Server: s.redis.ProcessorTime})
}

func (s *suite) guardedOnPostgres(ctx context.Context, section *report.Section) error {
	if s.postgres == nil {
		return nil
	}
	pool, err := s.pool(ctx, postgresPool, nil)
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
	if err := s.postgres.Age(ctx, 4*walFilesPerRound*s.rounds); err != nil {
		return err
	}
	services, err := guardedOnPool(ctx, pool)
	if err != nil {
		return err
	}
	own, err := s.pool(ctx, postgresPool, nil)
	if err != nil {
		return err
	}
	defer own.Close()
	durable, stop, err := peers.DBOS(ctx, own, response)
	defer stop()
	if err != nil {
		return err
	}
	services = append(services, service{name: durableFirst, fresh: same(durable)}, service{name: durableReplay, fresh: same(durable), replay: true})
	return s.compareGuarded(ctx, section, backend{name: guardedPostgres, services: services}, harness.Plan{Server: s.postgres.ProcessorTime})
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
	return []service{
		{name: oursFirst, fresh: same(ours)},
		{name: oursReplay, fresh: same(ours), replay: true},
		{name: byHandFirst, fresh: same(theirs)},
		{name: byHandReplay, fresh: same(theirs), replay: true},
		{name: oneWrite, fresh: same(least(insert))},
		{name: oneRead, fresh: same(least(read)), replay: true},
		{name: bareServiceName, fresh: barePay, replay: true},
	}, insert(ctx, known)
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
		{guardedMemory, []int{1}, 0.85, "by hand hardly does more than claim and keep: it took 1.4 times two SHA-256 sums and json.Valid (*floor*). What a guard promises beside that takes more: the canonical walk, the digest, the memory of a run and the store's calls alone took 2.7 times that floor (`go test ./core -run '^$' -bench BenchmarkPartsOfAFirst`)."},
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
