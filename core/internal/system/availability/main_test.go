package availability

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/oncekey/oncekey/core/internal/system/service"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(redisURL) != "" {
		service.Quiet()
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	service.Main(m)
}

const patience = service.Patience

func poll(limit time.Duration, condition func() bool) bool { return testkit.Poll(limit, condition) }

// wait lets the load run, or an outage last. Nothing is judged by it.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
