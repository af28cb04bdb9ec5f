package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
	"github.com/oncekey/oncekey/examples/bench/internal/harness"
	"github.com/oncekey/oncekey/examples/bench/internal/report"
	"github.com/oncekey/oncekey/fingerprint"
)

const (
	smallStore = 10_000
	// sampled is the number of random keys that the replays cycle through, enough to
	// exceed each processor's cache.
	sampled = 1 << 16
)

const inMemory = "memstore"

// requestKey is the idempotency key of record i in a large memory store.
func requestKey(i int) string { return fmt.Sprint("growth-", i) }

// requestClaim is the claim of the payload under requestKey(i).
func requestClaim(i int) storage.Claim {
	claim := newClaim(requestKey(i))
	claim.Fingerprint = payloadFingerprint
	return claim
}

var payloadFingerprint = fingerprint.Of(fingerprint.Request{
	Method: http.MethodPost, Path: "/payments", ContentType: "application/json", Body: payload,
}, nil)

// growthKey is the storage key of record i in a large store, in a form that SQL can
// compute too.
func growthKey(i int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "growth %d", i))
	return hex.EncodeToString(sum[:])
}

func growthClaim(i int) storage.Claim {
	claim := newClaim("")
	claim.Key = growthKey(i)
	return claim
}

// sampleOf returns a random sample of a value for each record.
func sampleOf[T any](records int, of func(i int) T) []T {
	random := rand.New(rand.NewPCG(1, uint64(records))) //nolint:gosec // a sample, not a secret
	sample := make([]T, sampled)
	for i := range sample {
		sample[i] = of(random.IntN(records))
	}
	return sample
}

// inTurn cycles through a sample, across slices.
func inTurn[T any](sample []T) func() T {
	at := 0
	return func() T {
		at++
		return sample[at%len(sample)]
	}
}

// growth measures replays of random keys as stores grow.
func growth(ctx context.Context, s *suite) (report.Section, error) {
	sizes := []int{smallStore, s.records}
	if s.large {
		sizes = append(sizes, 10*s.records)
	}
	section := report.Section{
		Title: "Growth",
		Text: []string{
			"Replays of keys at random, one at a time, from stores of the same kind and of different size. A table is read as it is: " +
				"pages that the filling of a larger table has pushed out of the machine's memory come from disk. -large adds a store of ten times the size.",
		},
	}
	table := report.Table{Head: []string{"store", "records", "replay", "x smallest"}}
	for _, grow := range []func(context.Context, *suite, []int) (string, []storage.Store, func(), error){growMemory, growRedis, growPostgres, growTiers} {
		name, stores, end, err := grow(ctx, s, sizes)
		if err == nil && len(stores) > 0 {
			err = s.compareGrowth(ctx, &table, name, storeArms(ctx, stores, sizes))
		}
		if err == nil && name == inMemory {
			err = s.compareRequestGrowth(ctx, &table, stores, sizes)
		}
		end()
		if err != nil {
			return section, err
		}
	}
	section.Tables = append(section.Tables, table)
	if s.postgres == nil {
		return section, nil
	}
	err := s.measurePostgresSweep(ctx, &section)
	return section, err
}

// storeArms read records at random from each store.
func storeArms(ctx context.Context, stores []storage.Store, sizes []int) (arms []harness.Arm) {
	for i, store := range stores {
		claimOf := growthClaim
		if _, in := store.(*memstore.Store); in {
			claimOf = requestClaim
		}
		next := inTurn(sampleOf(sizes[i], claimOf))
		arms = append(arms, storeWork{ctx, store, 1, true}.replayArm(fmt.Sprint(sizes[i]), func(int) storage.Claim { return next() }))
	}
	return arms
}

// compareRequestGrowth measures replays in process, as clients get them.
func (s *suite) compareRequestGrowth(ctx context.Context, table *report.Table, stores []storage.Store, sizes []int) error {
	var arms []harness.Arm
	for i, store := range stores {
		engine, err := newEngine(store)
		if err != nil {
			return err
		}
		e, err := newExchange(ctx, engine.Handler(http.HandlerFunc(pay)))
		if err != nil {
			return err
		}
		next := inTurn(sampleOf(sizes[i], requestKey))
		replays := repeat(func() error { return e.send(next(), http.StatusCreated) })
		arms = append(arms, harness.Arm{Name: fmt.Sprint(sizes[i]), Run: func(n int) error {
			err := replays(n)
			if err == nil && !e.replayed() {
				err = errNoReplay
			}
			return err
		}})
	}
	return s.compareGrowth(ctx, table, inMemory+", a whole request in process", arms)
}

func (s *suite) compareGrowth(ctx context.Context, table *report.Table, name string, arms []harness.Arm) error {
	plan := s.plan(0)
	plan.Collect = false // a collection would take longer than a slice
	c, err := harness.Compare(ctx, plan, arms)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i, arm := range arms {
		ratio := "A/A control " + report.Interval(c.Control())
		if i > 0 {
			ratio = report.Interval(c.Ratio(arm.Name, arms[0].Name))
		}
		table.Rows = append(table.Rows, []string{name, arm.Name, report.Duration(c.Median(arm.Name).Time), ratio})
	}
	return nil
}

func growMemory(ctx context.Context, _ *suite, sizes []int) (name string, stores []storage.Store, end func(), err error) {
	for _, records := range sizes {
		store, err := filledMemory(ctx, records)
		if err != nil {
			return "", nil, func() {}, err
		}
		stores = append(stores, store)
	}
	return inMemory, stores, func() {}, nil
}

// redisDatabase is the database of the first size. Other parts use 0 and 1.
const redisDatabase = 2

func growRedis(ctx context.Context, s *suite, sizes []int) (name string, stores []storage.Store, end func(), err error) {
	var clients []*redis.Client
	end = func() {
		for _, client := range clients {
			client.Close()
		}
	}
	if s.redis == nil {
		return "", nil, end, nil
	}
	for i, records := range sizes {
		client := s.redisClient(redisDatabase + i)
		clients = append(clients, client)
		if err := fillRedis(ctx, client, records); err != nil {
			return "", nil, end, err
		}
		stores = append(stores, redisstore.New(client))
	}
	return "redisstore", stores, end, nil
}

// fillRedis stores one record, and copies the record to the other keys.
func fillRedis(ctx context.Context, client *redis.Client, records int) error {
	if held, err := client.DBSize(ctx).Result(); err != nil || held >= int64(records) {
		return err // another part of the growth has filled the database
	}
	work := storeWork{ctx: ctx, store: redisstore.New(client), workers: 1}
	if err := work.finish([]storage.Claim{growthClaim(0)}, newResult()); err != nil {
		return err
	}
	value, err := client.Get(ctx, redisstore.DefaultPrefix+growthKey(0)).Result()
	if err != nil {
		return err
	}
	const batch = 1000
	for from := 0; from < records; from += batch {
		if _, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := from; i < min(from+batch, records); i++ {
				pipe.Set(ctx, redisstore.DefaultPrefix+growthKey(i), value, 24*time.Hour)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// growTiers fills a store of each size in both tiers. Replays come from Redis.
func growTiers(ctx context.Context, s *suite, sizes []int) (name string, stores []storage.Store, end func(), err error) {
	_, hot, endHot, err := growRedis(ctx, s, sizes)
	if err != nil || len(hot) == 0 {
		return "", nil, endHot, err
	}
	_, durable, endDurable, err := growPostgres(ctx, s, sizes)
	end = func() { endHot(); endDurable() }
	if err != nil || len(durable) == 0 {
		return "", nil, end, err
	}
	for i := range hot {
		stores = append(stores, tieredstore.New(hot[i], durable[i], tieredstore.HotTimeout(time.Second)))
	}
	return "tieredstore", stores, end, nil
}
