package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// ping returns nil when the process listens at the address and serves commands. A server that still loads its data answers
// PING with an error. The process number is compared because another test's server may have been faster to take the port,
// and would answer just as well.
func ping(ctx context.Context, address string, pid int) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	if deadline, limited := ctx.Deadline(); limited {
		if err := connection.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(connection, "PING\r\nINFO server\r\n"); err != nil {
		return err
	}
	reader := bufio.NewReader(connection)
	if err := expectPong(reader); err != nil {
		return err
	}
	return expectProcess(reader, pid)
}

func expectPong(reader *bufio.Reader) error {
	answer, err := reader.ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer to PING: %w", err)
	}
	if answer != "+PONG\r\n" {
		return fmt.Errorf("PING was answered with %q", answer)
	}
	return nil
}

func expectProcess(reader *bufio.Reader, pid int) error {
	header, err := reader.ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer to INFO: %w", err)
	}
	length, err := strconv.Atoi(strings.Trim(header, "$\r\n"))
	if err != nil || length < 0 {
		return fmt.Errorf("INFO was answered with %q", header)
	}
	information := make([]byte, length)
	if _, err := io.ReadFull(reader, information); err != nil {
		return fmt.Errorf("half an answer to INFO: %w", err)
	}
	if want := fmt.Sprintf("\r\nprocess_id:%d\r\n", pid); !strings.Contains(string(information), want) {
		return fmt.Errorf("another server than process %d listens there", pid)
	}
	return nil
}
