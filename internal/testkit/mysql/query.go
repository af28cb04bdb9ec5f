package mysqltest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// queryDeadline bounds one query.
const queryDeadline = time.Minute

// Capabilities of a client, and the first bytes of packets, see the manual of MySQL's protocol.
const (
	capabilities = 0x1 | 0x8 /* with a database */ | 0x200 /* 4.1 */ | 0x2000 | 0x8000 | 0x80000 /* names its plugin */
	utf8mb4      = 45
	largest      = 1 << 24

	packetOK       = 0x00
	packetMoreData = 0x01
	packetNull     = 0xfb
	packetLong     = 0xfc // a length in the next two bytes
	packetEOF      = 0xfe // and a request for another plugin
	packetError    = 0xff

	commandQuery = 0x03
)

// query runs one statement on a connection of its own, for an account without a password. It returns the first value of the
// first row as text, or nothing. The servers' packages do not all have a client program, and drivers are not imported here.
func query(addr, account, database, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryDeadline)
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(queryDeadline)); err != nil {
		return "", err
	}
	c := &client{stream: connection}
	if err := c.logIn(account, database); err != nil {
		return "", err
	}
	c.sequence = 0
	if err := c.write(append([]byte{commandQuery}, statement...)); err != nil {
		return "", err
	}
	return c.result()
}

// client speaks the protocol: packets of a length in three bytes, a number, and the content.
type client struct {
	stream   io.ReadWriter
	sequence byte
}

// read returns the content of a packet, which is not empty, or the server's error.
func (c *client) read() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.stream, head[:]); err != nil {
		return nil, err
	}
	c.sequence = head[3] + 1
	content := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	if _, err := io.ReadFull(c.stream, content); err != nil {
		return nil, err
	}
	if len(content) == 0 {
		return nil, errors.New("the server has sent an empty packet")
	}
	if content[0] == packetError {
		return nil, fmt.Errorf("the server's error: %q", content[1:])
	}
	return content, nil
}

func (c *client) write(content []byte) error {
	size := len(content)
	_, err := c.stream.Write(append([]byte{byte(size), byte(size >> 8), byte(size >> 16), c.sequence}, content...))
	return err
}

// logIn responds to each question for a password with none.
func (c *client) logIn(account, database string) error {
	if _, err := c.read(); err != nil { // the greeting
		return err
	}
	content := binary.LittleEndian.AppendUint32(nil, capabilities)
	content = binary.LittleEndian.AppendUint32(content, largest)
	content = append(content, utf8mb4)
	content = append(content, make([]byte, 23)...)
	content = append(content, account+"\x00\x00"+database+"\x00caching_sha2_password\x00"...)
	for {
		if err := c.write(content); err != nil {
			return err
		}
		reply, err := c.read()
		for err == nil && reply[0] == packetMoreData {
			reply, err = c.read()
		}
		if err != nil || reply[0] == packetOK {
			return err
		}
		content = nil
	}
}

// result reads the response to a query.
func (c *client) result() (string, error) {
	head, err := c.read()
	if err != nil || head[0] == packetOK {
		return "", err
	}
	value, ends := "", 0 // after the columns, and after the rows
	for rows := 0; ends < 2; {
		content, err := c.read()
		switch {
		case err != nil:
			return "", err
		case content[0] == packetEOF:
			ends++
		case ends == 1 && rows == 0:
			rows, value = 1, text(content)
		}
	}
	return value, nil
}

// text returns the first value of a row.
func text(row []byte) string {
	size, begin := int(row[0]), 1
	switch row[0] {
	case packetNull:
		return "NULL"
	case packetLong:
		size, begin = int(binary.LittleEndian.Uint16(row[1:])), 3
	}
	return string(row[begin : begin+size])
}
