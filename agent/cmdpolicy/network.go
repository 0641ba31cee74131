package cmdpolicy

import (
	"regexp"
	"slices"
	"strings"
)

// infrastructures judges the tools of clouds.
func infrastructures(j *evaluator, c call) (text, bool) {
	bad := false
	switch c.name {
	case "terraform", "tofu", "pulumi", "cdk", "serverless", "sls", "ansible", "ansible-playbook", "packer":
		bad = anyOf(c.args, "destroy", "apply", "up", "remove", "deploy", "state", "taint", "-m") || c.name == "ansible-playbook"
	case "helm":
		bad = anyOf(c.args, "uninstall", "delete", "upgrade", "install", "rollback")
	case "aws", "gcloud", "az", "doctl", "hcloud", "linode-cli", "fly", "flyctl", "heroku", "gsutil", "s3cmd", "mc", "rclone", "b2", "wrangler", "vercel", "netlify":
		bad = slices.ContainsFunc(c.args, func(a string) bool {
			return deleteVerb.MatchString(a) || strings.Contains(a, ":destroy") || a == "sync" && anyOf(c.args, "--delete") || a == "deploy"
		})
	default:
		return text{}, false
	}
	if bad {
		j.hit("infrastructure", c.name, strings.Join(c.args, " "))
	}
	return handled()
}

var deleteVerb = regexp.MustCompile(`^(delete|rm|rb|destroy|purge|remove|terminate|deprovision|delete-.*|terminate-.*|remove-.*|del|deletefile|cleanup)$`)

var (
	sqlLoss   = regexp.MustCompile(`(?is)\b(drop\s+(table|database|schema|view|index|user|role|keyspace|collection)|truncate\b|alter\s+table\s+\S+\s+drop|detach\s+database)`)
	sqlDelete = regexp.MustCompile(`(?is)\b(delete\s+from|update\s+\S+\s+set)\b[^;]*`)
	sqlWhere  = regexp.MustCompile(`(?is)\bwhere\b\s*(\S+)`)
	docLoss   = regexp.MustCompile(`(?i)dropDatabase|\.drop\(|deleteMany\(\s*\{\s*\}|\.remove\(\s*\{?\s*\}?\s*\)|flushall|flushdb|DELETE\s+/|_delete_by_query`)
	sqlShell  = regexp.MustCompile(`(?im)(?:^|\s|;)(?:\\!|\.shell|\.system|system|!)\s+(.*)`)
	sqlRead   = regexp.MustCompile(`(?i)\bto\s+program\b|\bfrom\s+program\b|into\s+outfile|load_extension|pg_read_file|xp_cmdshell`)
)

// databases judges the clients of databases by the statements that they are
// given, in arguments or by a pipe.
func databases(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "dropdb", "dropuser":
		j.hit("database", c.name, "")
		return handled()
	case "redis-cli", "valkey-cli", "mongo", "mongosh", "psql", "pgcli", "mysql", "mariadb", "mycli", "sqlite3", "sqlite", "duckdb", "sqlcmd", "clickhouse-client", "cqlsh", "mysqladmin", "usql", "cockroach", "snowsql", "bq", "isql", "sqlplus", "influx":
	default:
		return text{}, false
	}
	all := strings.Join(c.args, " ") + "\n" + c.stdin.s
	all = regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(all, " ")
	lost := sqlLoss.MatchString(all) || docLoss.MatchString(all) || c.name == "mysqladmin" && anyOf(c.args, "drop") || sqlRead.MatchString(all)
	for _, m := range sqlDelete.FindAllString(all, 32) {
		where := sqlWhere.FindStringSubmatch(m)
		lost = lost || where == nil || strings.HasPrefix(where[1], "1") || strings.HasPrefix(strings.ToLower(where[1]), "true")
	}
	if lost {
		j.hit("database", c.name, "")
	}
	if c.stdin.kind == anything && len(c.args) == 0 {
		j.hit("run-piped", "", "")
	}
	for _, m := range sqlShell.FindAllStringSubmatch(all, 8) {
		if strings.HasPrefix(strings.TrimSpace(m[0]), "system") && !strings.HasPrefix(c.name, "my") {
			continue
		}
		j.hit("run-code", "", "")
		j.subshell(strings.Trim(m[1], `'"`), text{kind: anything}, "sh", nil)
	}
	j.touched(c)
	return handled()
}

// networks judges what changes the network or opens it.
func networks(j *evaluator, c call) (text, bool) {
	all := strings.Join(c.args, " ")
	o, rest := parse(c.args, "p w s e c o i b F D E I L R J l m", false)
	switch c.name {
	case "nc", "ncat", "netcat", "nc.openbsd", "nc.traditional", "socat", "cryptcat":
		_, listens := o["l"]
		if listens || o.any("listen", "k") || strings.Contains(strings.ToUpper(all), "LISTEN") {
			j.hit("listen", c.name, all)
		}
		for _, n := range []string{"e", "c", "exec", "sh-exec"} {
			if v, ok := o[n]; ok && v != "" {
				j.hit("listen", c.name, all)
				j.subshell(v, text{kind: anything}, "sh", nil)
			}
		}
		for _, a := range rest {
			_, v, ok := strings.Cut(a, ":")
			if up := strings.ToUpper(a); ok && (strings.HasPrefix(up, "EXEC:") || strings.HasPrefix(up, "SYSTEM:") || strings.HasPrefix(up, "SHELL:")) {
				j.hit("listen", c.name, all)
				j.subshell(v, text{kind: anything}, "sh", nil)
			}
		}
		if c.stdin.kind != none && !listens {
			j.hit("upload", c.name, all)
		}
	case "ngrok", "cloudflared", "localtunnel", "lt", "bore", "frpc", "chisel", "serveo", "tailscale", "http-server", "serve", "twistd", "rpcbind", "telnetd", "sshd", "vsftpd", "dropbear", "webfsd":
		if c.name != "tailscale" || !anyOf(c.args, "status", "ip", "ping") {
			j.hit("listen", c.name, all)
		}
	case "iptables", "ip6tables", "nft", "ufw", "firewall-cmd", "pfctl", "ipset", "netsh", "arptables", "ebtables", "nmcli", "networksetup", "tc", "iptables-restore", "resolvectl":
		if len(c.args) > 0 && !anyOf(c.args, "-L", "-S", "list", "status", "--list-all", "show", "--state", "-n", "query") {
			j.hit("network", c.name, all)
		}
	case "ip", "ifconfig", "route", "ifdown", "ifup", "hostnamectl", "timedatectl", "rfkill":
		if anyOf(c.args, "add", "del", "delete", "set", "flush", "down", "change", "replace", "set-hostname", "set-time", "set-timezone", "set-ntp", "block") || c.name == "ifdown" {
			j.hit("network", c.name, all)
		}
	default:
		return text{}, false
	}
	return handled()
}

// transfers judges what sends files away, or acts on other machines.
func transfers(j *evaluator, c call) (text, bool) {
	all := strings.Join(c.args, " ")
	switch c.name {
	case "curl", "wget", "http", "https", "xh", "aria2c", "fetch", "lynx", "w3m", "gdown":
		j.http(c, all)
	case "ssh", "autossh", "mosh", "rsh", "rlogin", "slogin", "sshpass":
		j.ssh(c, all)
	case "scp", "sftp", "rsync", "ftp", "lftp", "tftp", "croc", "magic-wormhole", "wormhole":
		j.copies(c, all)
	case "ssh-copy-id", "ssh-keygen", "ssh-add":
		if !anyOf(c.args, "-l", "-L", "-lf") {
			j.hit("secrets", c.name, all)
		}
	case "gpg", "gpg2":
		if strings.Contains(all, "secret") || strings.Contains(all, "--delete") {
			j.hit("secrets", c.name, all)
		}
	case "security", "secret-tool", "pass", "op", "bw", "vault", "lpass", "keyring":
		j.hit("secrets", c.name, all)
	case "telnet":
		j.hit("remote", c.name, all)
	default:
		return text{}, false
	}
	return handled()
}

func (j *evaluator) http(c call, all string) {
	for i, a := range c.args {
		v := ""
		if i+1 < len(c.args) {
			v = c.args[i+1]
		}
		if n, w, ok := strings.Cut(a, "="); ok && strings.HasPrefix(a, "--") {
			a, v = n, w
		} else if len(a) > 2 && a[0] == '-' && strings.Contains("dFToOK", a[1:2]) && a[1] != '-' && c.name == "curl" {
			a, v = a[:2], a[2:]
		}
		switch a {
		case "-T", "--upload-file", "--post-file", "--body-file":
			j.hit("upload", c.name, all)
			j.read(v)
		case "-d", "--data", "--data-binary", "--data-raw", "--data-urlencode", "-F", "--form", "--json":
			if at := strings.IndexByte(v, '@'); at == 0 || at > 0 && (v[at-1] == '=' || a == "--data-urlencode") {
				j.hit("upload", c.name, all)
				j.read(v[at+1:])
			}
		case "-o", "--output", "-O", "--output-document":
			if v != "" && (a != "-O" || c.name == "wget") {
				j.write(c.name, v)
			}
		case "-K", "--config":
			j.read(v)
		case "--use-askpass", "--use-proxy-cmd":
			j.subshell(v, text{kind: none}, "sh", nil)
		}
		if p, ok := strings.CutPrefix(c.args[i], "file:"); ok {
			j.read("/" + strings.TrimLeft(p, "/"))
		}
	}
}

func (j *evaluator) ssh(c call, all string) {
	if c.name == "sshpass" {
		_, rest := parse(c.args, "p f d", true)
		j.run(rest, c.stdin)
		return
	}
	o, rest := parse(c.args, "b c D E e F I i J L l m O o p Q R S W w", true)
	if o.any("V", "Q", "G") {
		return
	}
	if _, l := o["L"]; l || o.any("R", "D", "w") {
		j.hit("listen", c.name, all)
	}
	for i, a := range c.args {
		if a == "-o" && i+1 < len(c.args) {
			a = "-o" + c.args[i+1]
		}
		if k, v, ok := strings.Cut(strings.TrimPrefix(a, "-o"), "="); ok && strings.HasSuffix(strings.ToLower(k), "command") && strings.HasPrefix(a, "-o") {
			j.hit("run-code", "", "")
			j.subshell(v, text{kind: anything}, "sh", nil)
		}
	}
	j.hit("remote", c.name, all)
	if len(rest) > 1 {
		_, rest = parse(rest[1:], "p l i o", true)
		j.subshell(strings.Join(rest, " "), c.stdin, "sh", nil)
	} else {
		j.piped(c.stdin)
	}
}

func (j *evaluator) copies(c call, all string) {
	o, rest := parse(c.args, "e f F i l o P S J exclude include filter rsh rsync-path files-from password-file link-dest", false)
	for _, n := range []string{"e", "rsh", "rsync-path"} {
		if v, ok := o[n]; ok && c.name == "rsync" {
			j.subshell(v, text{kind: anything}, "sh", nil)
			if first := strings.Fields(v); len(first) > 0 && base(first[0]) != "ssh" {
				j.hit("run-code", "", "")
			}
		}
	}
	if slices.ContainsFunc(rest, func(a string) bool {
		return strings.Contains(a, ":") && !strings.HasPrefix(a, "/") && !strings.HasPrefix(a, ".")
	}) || c.name != "rsync" {
		j.hit("upload", c.name, all)
	}
	for i, f := range rest {
		if i == len(rest)-1 && len(rest) > 1 {
			j.write(c.name, f)
			if o.any("delete", "del", "delete-after", "delete-before", "delete-excluded") {
				j.remove(c.name, f, true)
			}
			return
		}
		j.read(f)
		if o.any("remove-source-files") {
			j.remove(c.name, f, true)
		}
	}
}

// accounts judges what changes who may do what.
func accounts(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "useradd", "userdel", "usermod", "groupadd", "groupdel", "groupmod", "adduser", "deluser", "addgroup", "delgroup", "passwd", "chpasswd", "gpasswd", "visudo", "vipw", "vigr", "chsh", "chfn", "chage", "dscl", "pw", "newusers", "pwconv", "faillock", "setenforce", "aa-disable", "authconfig", "htpasswd":
		j.hit("accounts", c.name, strings.Join(c.args, " "))
	default:
		return text{}, false
	}
	return handled()
}

// own judges commands of the daemon itself.
func own(j *evaluator, c call) (text, bool) {
	switch c.name {
	case "hermesd", "hermes", "hermes-gateway":
	default:
		return text{}, false
	}
	if !anyOf(c.args, "version", "--version", "--help", "-h", "help", "status", "doctor", "completion") {
		j.hit("own-daemon", c.name, "")
	}
	return handled()
}
