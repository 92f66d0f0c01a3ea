package shortcode

// Reserved reports whether a word, in any case, must not be a code or a slug: the first path
// segments of the server's own URLs, and words that suggest a part of the service. Popular words
// such as blog or jobs are available to tenants.
func Reserved(word string) bool {
	var lower [MaxLength]byte // no word is longer, and none is allocated: every redirect asks
	if len(word) > len(lower) {
		return false
	}
	for i := range len(word) {
		if lower[i] = word[i]; 'A' <= word[i] && word[i] <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	switch string(lower[:len(word)]) {
	case // The server's own URLs.
		"graphql", "playground", "schema", "subscriptions", "api", "export", "admin", "assets", "static",
		"health", "healthz", "livez", "readyz", "metrics", "debug", "version":
		return true
	case // Requests that browsers and crawlers send by themselves.
		".well-known", "favicon.ico", "robots.txt", "sitemap.xml", "humans.txt", "security.txt", "ads.txt",
		"manifest.json", "manifest.webmanifest", "browserconfig.xml", "crossdomain.xml", "apple-touch-icon.png",
		"apple-touch-icon-precomposed.png", "index.html", "index.php", "service-worker.js", "sw.js":
		return true
	case // Pages of an account.
		"login", "log-in", "signin", "sign-in", "logout", "log-out", "signout", "sign-out", "register", "signup",
		"sign-up", "auth", "oauth", "oauth2", "sso", "callback", "password", "reset", "verify", "confirm", "invite",
		"invitation", "invitations", "claim", "unsubscribe", "account", "accounts", "profile", "user", "users",
		"settings", "preferences", "billing", "payment", "payments", "checkout":
		return true
	case // Pages of the product.
		"app", "dashboard", "home", "index", "new", "create", "edit", "delete", "search", "links", "urls", "stats",
		"statistics", "analytics", "workspace", "workspaces", "members", "organization", "organizations", "domains",
		"keys", "tokens", "preview", "public", "import", "upload", "uploads", "download", "downloads",
		"notifications", "webhook", "webhooks":
		return true
	case // Pages of the operator, and names that would pass for the operator's own.
		"about", "abuse", "contact", "cookies", "dmca", "docs", "documentation", "help", "imprint", "legal", "privacy",
		"security", "status", "support", "terms", "tos", "administrator", "linkforge", "moderator", "official",
		"operator", "root", "staff", "system", "webmaster":
		return true
	case // Host names and folders.
		"cdn", "css", "files", "fonts", "ftp", "images", "img", "internal", "js", "localhost", "mail", "media",
		"private", "smtp", "www":
		return true
	case // Placeholders of programs.
		"error", "false", "nan", "nil", "none", "null", "true", "undefined", "unknown":
		return true
	}
	return false
}
