package redistest

import (
	"context"
	"fmt"
	"strconv"
)

// ping returns nil when the process listens at the address and serves commands. A server that still loads its data answers
// PING with an error. The process number is compared because another test's server may have been faster to take the port,
// and would answer just as well.
func ping(ctx context.Context, address string, pid int) error {
	server, err := converse(ctx, address)
	if err != nil {
		return err
	}
	defer server.close()
	if answer, err := server.ask("PING"); err != nil {
		return err
	} else if answer != "PONG" {
		return fmt.Errorf("PING was answered with %q", answer)
	}
	information, err := server.ask("INFO", "server")
	if err != nil {
		return err
	}
	text, _ := information.(string)
	if fields(text)["process_id"] != strconv.Itoa(pid) {
		return fmt.Errorf("another server than process %d listens there", pid)
	}
	return nil
}
