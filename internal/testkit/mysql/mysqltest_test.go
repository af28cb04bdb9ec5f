package mysqltest

import (
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for banner, vendor := range map[string]*Vendor{
		"mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu":              MariaDB,
		"mariadbd  Ver 10.6.0-MariaDB for Linux":                                     MariaDB,
		"mysqld  Ver 11.4.1-MariaDB for Linux":                                       MariaDB,
		"mariadbd  Ver 10.5.9-MariaDB for Linux":                                     nil,
		"/usr/sbin/mysqld  Ver 8.0.36-0ubuntu0.22.04.1 for Linux on x86_64":          MySQL,
		"/repository/build/mysql/server  Ver 9.7.4-2 for Linux on x86_64 ((Debian))": MySQL,
		"mysqld  Ver 5.7.44 for Linux":                                               nil,
		"no version":                                                                 nil,
	} {
		for _, v := range []*Vendor{MySQL, MariaDB} {
			if version, err := v.check(banner); (err == nil) != (v == vendor) || err == nil && !strings.Contains(banner, version) {
				t.Errorf("%s for %s: %q and %v", banner, v.name, version, err)
			}
		}
	}
	for _, v := range []*Vendor{MySQL, MariaDB} {
		if _, err := v.locate([]string{"no such program", "/nowhere/*"}); err == nil || !strings.Contains(err.Error(), v.install) {
			t.Errorf("without programs: %v, want the way to get %s", err, v.name)
		}
	}
}
