// CountrySource stands below countries: the link that DB-IP's licence demands or, without a database, how to get one.
import { useMe, usePlace } from '../app';

export function CountrySource() {
  const { countryDatabase } = useMe(), { may } = usePlace();
  if (countryDatabase?.includes('DBIP')) return <small><a href="https://db-ip.com">IP Geolocation by DB-IP</a></small>;
  if (countryDatabase || !may('SETTINGS_WRITE')) return null;
  return <small>Countries are unknown until the operator runs <code>linkforge geoip update</code> on the server.</small>;
}
