package main

import (
	"net/http"
	"time"

	"github.com/oncekey/oncekey/core"
)

// routers are the values of -router. Both serve the same handlers under the same
// policies.
var routers = map[string]func(s *shop, engine *core.Engine, times times) http.Handler{
	"chi": chiRouter,
	"gin": ginRouter,
}

// times are those of the policies that flags set.
type times struct{ lockTTL, storeTimeout time.Duration }
