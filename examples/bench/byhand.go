package main

import (
	"context"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/examples/bench/internal/peers"
)

// byHandFirst and byHandReplay are the floor of a guard on Redis that checks a token and a
// fingerprint.
const (
	byHandFirst  = "by hand, with token and fingerprint: first"
	byHandReplay = "by hand, with token and fingerprint: replay"
)

// byHand is the floor with values as large as oncekey's. It empties the database of
// first-time requests.
func byHand(ctx context.Context, clients redisClients, client redis.UniversalClient) (http.Handler, error) {
	claim, result, err := recordSizes(ctx, clients.emptied)
	if err != nil {
		return nil, err
	}
	return peers.ByHand{Client: client, Claim: claim, Result: result}.Handler(http.HandlerFunc(pay)), nil
}

// recordSizes returns the sizes of a running request's value and of its response's. It
// empties the database before and after.
func recordSizes(ctx context.Context, client redis.UniversalClient) (claim, result int, err error) {
	if err := client.FlushDB(ctx).Err(); err != nil {
		return 0, 0, err
	}
	size := func() int {
		length, sizeErr := client.StrLen(ctx, client.RandomKey(ctx).Val()).Result()
		if sizeErr != nil {
			err = sizeErr
		}
		return int(length)
	}
	e, sendErr := exchangeWith(ctx, redisstore.New(client), func(w http.ResponseWriter, r *http.Request) {
		claim = size()
		pay(w, r)
	})
	if sendErr == nil {
		sendErr = e.send(newKey(), http.StatusCreated)
	}
	if sendErr != nil {
		return 0, 0, sendErr
	}
	result = size()
	if err != nil {
		return 0, 0, err
	}
	return claim, result, client.FlushDB(ctx).Err()
}
