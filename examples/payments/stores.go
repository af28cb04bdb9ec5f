package main

import (
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/redisstore"
)

// stores are what -store can name. Each opens its store, and returns what to
// close when the last answer is stored.
var stores = map[string]func(settings) (core.Store, func() error){
	"memory": openMemory,
	"redis":  openRedis,
}

func openMemory(settings) (core.Store, func() error) {
	return memstore.New(), func() error { return nil }
}

func openRedis(s settings) (core.Store, func() error) {
	s.redis.ContextTimeoutEnabled = true // a call that nobody waits for any more ends at once
	client := redis.NewClient(s.redis)
	return redisstore.New(client), client.Close
}
