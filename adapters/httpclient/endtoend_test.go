package httpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekey/oncekey/adapters/httpclient"
	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// A hundred orders through a network that loses, delays and duplicates 30% of the
// requests and of the responses: every order is charged exactly once.
func TestEveryOrderIsChargedOnce(t *testing.T) {
	t.Parallel()
	binary := buildPayments(t)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			const orders, customers = 100, 8
			shop := startPayments(t, binary)
			network := newNetwork(t, shop, seed)
			wire := &http.Transport{}
			t.Cleanup(wire.CloseIdleConnections)
			client := &http.Client{Transport: transportTo(t, wire,
				httpclient.MaxAttempts(60), httpclient.Backoff(2*time.Millisecond, 10*time.Millisecond), httpclient.AttemptTimeout(5*time.Second))}

			next := make(chan int)
			var paying sync.WaitGroup
			for range customers {
				paying.Go(func() {
					for order := range next {
						pay(t, client, network.URL, order)
					}
				})
			}
			for order := range orders {
				next <- order
			}
			close(next)
			paying.Wait()

			network.expectBad(t)
			expectOneChargeEach(t, shop, orders)
			t.Logf("%d orders took %d attempts", orders, network.total())
		})
	}
}

func orderID(order int) string { return fmt.Sprintf("order-%d", order) }

// pay pays for one order by one call.
func pay(t *testing.T, client *http.Client, url string, order int) {
	t.Helper()
	id := orderID(order)
	card := "tok_ok"
	if order%4 == 0 {
		card = "tok_slow:20ms" // a duplicate arrives while the first request runs
	}
	body := fmt.Sprintf(`{"order_id":%q,"amount":4200,"currency":"EUR","card":%q}`, id, card)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/payments", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer alice")
	request.Header.Set("X-Order", id)
	response, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return
	}
	defer response.Body.Close()
	var receipt struct {
		OrderID string `json:"order_id"`
		Status  string `json:"status"`
	}
	if err := json.NewDecoder(response.Body).Decode(&receipt); err != nil {
		t.Errorf("the receipt of %s: %v", id, err)
	}
	if response.StatusCode != http.StatusCreated || receipt.OrderID != id || receipt.Status != "captured" {
		t.Errorf("%s got %d %+v", id, response.StatusCode, receipt)
	}
}

// expectOneChargeEach queries the shop directly, without the network.
func expectOneChargeEach(t *testing.T, shop string, orders int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, shop+"/ledger", http.NoBody)
	testkit.Must(t, err)
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := plain.Do(request)
	testkit.Must(t, err)
	defer response.Body.Close()
	var ledger struct {
		Charges []struct {
			OrderID string `json:"order_id"`
		} `json:"charges"`
	}
	testkit.Must(t, json.NewDecoder(response.Body).Decode(&ledger))
	charges := map[string]int{}
	for _, charge := range ledger.Charges {
		charges[charge.OrderID]++
	}
	for order := range orders {
		testkit.Equal(t, charges[orderID(order)], 1, "charges of %s", orderID(order))
	}
	testkit.Equal(t, len(ledger.Charges), orders, "charges of all orders")
}

// buildPayments builds the payments example.
func buildPayments(t *testing.T) string {
	t.Helper()
	watch(t, "../../examples/payments/*.go", "../../examples/payments/internal/shop/*.go", "../chi/*.go", "../../policy/*.go", "../../core/*.go", "../../core/memstore/*.go")
	return serverproc.Build(t, "../../examples", "./payments")
}

// watch opens the program's source files. A change of a file that a test has opened
// invalidates the test's cached result.
func watch(t *testing.T, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no files like %s: %v", pattern, err)
		}
		for _, name := range names {
			file, err := os.Open(name)
			testkit.Must(t, err)
			file.Close()
		}
	}
}

// startPayments runs the program until the test ends, and returns its URL.
func startPayments(t *testing.T, binary string) string {
	t.Helper()
	program := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "-addr", "127.0.0.1:0", "-store", "memory")
	return serverproc.Start(t, "payments", program).AwaitLine(regexp.MustCompile(`^listening on (\S+)$`))[1]
}
