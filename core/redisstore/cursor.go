package redisstore

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/oncekey/oncekey/core/internal/records"
)

var errOtherServers = errors.New("the cluster's masters are not those of the first page: start again with an empty cursor")

// position is the progress of a list. A cursor is its text form.
type position struct {
	// Servers is the checksum of the masters' addresses, set by the first page.
	Servers *uint32 `json:"servers"`
	// Server is the index of the scanned master, and Cursor the master's SCAN cursor.
	Server int    `json:"server"`
	Cursor uint64 `json:"cursor"`
	// Pending are keys that SCAN found beyond the requested count. The next page
	// reads them.
	Pending [][]byte `json:"pending,omitempty"`
}

// on checks that the servers are those of the first page.
func (p *position) on(servers int, addresses string) error {
	sum := crc32.ChecksumIEEE([]byte(addresses))
	if p.Server > servers || p.Servers != nil && *p.Servers != sum {
		return errOtherServers
	}
	p.Servers = &sum
	return nil
}

// String returns the cursor, which is empty for the zero position.
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
		return position{}, fmt.Errorf("redisstore: list: the cursor %s is not from List: start with an empty cursor", records.Excerpt(cursor))
	}
	return p, nil
}
