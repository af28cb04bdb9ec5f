package peers

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ByHand is the least that a guard with a token does on Redis, in two round trips: SET NX
// GET, and a script that replaces the claim while it has the token. It has no fingerprint
// and no lease, and replays no response. It is a floor, not a recommendation.
type ByHand struct {
	Client redis.UniversalClient
	// Claim and Result are the sizes of the two values.
	Claim, Result int
}

const tokenSize = 32

// settle replaces the value, if it begins with the token.
var settle = redis.NewScript(`
if redis.call('GETRANGE', KEYS[1], '0', '31') ~= ARGV[1] then
	return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`)

// Handler guards a handler.
func (b ByHand) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := "idempotency:" + r.Header.Get("Idempotency-Key")
		var random [tokenSize / 2]byte
		rand.Read(random[:]) // rand.Read never fails
		token := hex.EncodeToString(random[:])
		claim := redis.NewStringCmd(r.Context(), "set", key, padded(token, b.Claim), "px", storeTTL.Milliseconds(), "nx", "get")
		if err := b.Client.Process(r.Context(), claim); !errors.Is(err, redis.Nil) {
			http.Error(w, "in progress", http.StatusConflict)
			return
		}
		recorded := &recorder{header: make(http.Header), status: http.StatusOK}
		next.ServeHTTP(recorded, r)
		value := padded(token+recorded.body.String(), b.Result)
		if n, err := settle.Run(r.Context(), b.Client, []string{key}, token, value, storeTTL.Milliseconds()).Int(); err != nil || n != 1 {
			http.Error(w, "not stored", http.StatusServiceUnavailable)
			return
		}
		maps.Copy(w.Header(), recorded.header)
		w.WriteHeader(recorded.status)
		_, _ = w.Write(recorded.body.Bytes())
	})
}

func padded(text string, size int) string {
	return text + strings.Repeat(" ", max(size-len(text), 0))
}
