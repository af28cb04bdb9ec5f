package redisstore

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

var errOtherServers = errors.New("the cluster's masters are not those of the first page: begin with an empty cursor")

// position is where a list has come to. A cursor is its text.
type position struct {
	// Servers is the checksum of the addresses, from the first page on.
	Servers *uint32 `json:"servers"`
	// Server is the index of the one that is scanned, and Cursor its own.
	Server int    `json:"server"`
	Cursor uint64 `json:"cursor"`
	// Pending are keys that were found and not looked at: SCAN finds a few more
	// than it was asked for.
	Pending [][]byte `json:"pending,omitempty"`
}

// on checks that the servers are the same as before.
func (p *position) on(servers int, addresses string) error {
	sum := crc32.ChecksumIEEE([]byte(addresses))
	if p.Server > servers || p.Servers != nil && *p.Servers != sum {
		return errOtherServers
	}
	p.Servers = &sum
	return nil
}

// String is the cursor, which is empty for the zero position.
func (p *position) String() string {
	if p.Servers == nil {
		return ""
	}
	text, _ := json.Marshal(p) // numbers and bytes always encode
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCursor(cursor string) (position, error) {
	var p position
	if cursor == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || p.Server < 0 || p.String() != cursor {
		return position{}, fmt.Errorf("redisstore: list: the cursor %s is none of List's: begin with an empty one", excerpt(cursor))
	}
	return p, nil
}
