package routing

import "strings"

// devices are the kinds of devices that visits have, as package visitor names them.
var devices = [...]string{"desktop", "mobile", "tablet", "tv", "console", "other"}

// weekdays are in the order of time.Weekday.
var weekdays = [...]Weekday{"SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"}

// countries are the officially assigned codes of ISO 3166-1 alpha-2, and XK, which databases of
// countries use for Kosovo.
const countries = "" +
	"AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT " +
	"BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI " +
	"FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ " +
	"IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK " +
	"ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN " +
	"PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH " +
	"TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW"

func isCountry(code string) bool {
	return len(code) == 2 && !strings.Contains(code, " ") && strings.Contains(countries, code)
}

const minutesOfDay = 24 * 60

// parseClock returns the minute of the day of a time as HH:MM, from 00:00 to 24:00, or -1.
func parseClock(s string) int {
	if len(s) != 5 || s[2] != ':' {
		return -1
	}
	digits := s[:2] + s[3:]
	if strings.Trim(digits, "0123456789") != "" {
		return -1
	}
	hour, minute := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	if minute > 59 || hour*60+minute > minutesOfDay {
		return -1
	}
	return hour*60 + minute
}
